"""All that touches the disk, through the one seam in `fs.py`."""
