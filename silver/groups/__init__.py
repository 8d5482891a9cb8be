"""Consistency groups: tables that move by whole transactions."""
