"""Gold: what people read. Views of current rows, of their history, and of the pipeline itself.

A view shows business columns only. Its comment, its columns' comments and its keys say what it is.
"""
