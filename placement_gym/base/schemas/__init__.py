"""What files may contain: bounds, types and messages. Imported only where a file is parsed."""
