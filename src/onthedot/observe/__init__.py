"""What a node tells about itself becomes something to read: lines for people, lines for machines."""
