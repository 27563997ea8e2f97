"""The stores: reading, locking and clearing them."""
