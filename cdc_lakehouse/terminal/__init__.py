"""What the command line prints: lines, grids, progress, and what to do about failures."""
