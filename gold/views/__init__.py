"""The views that people query: current rows, histories, changes, and what guards them."""
