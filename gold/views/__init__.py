"""The views that people query: current rows, histories, changes, and checks of them."""
