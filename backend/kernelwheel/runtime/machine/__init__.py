"""What the loader asks of the machine: its system, its GPUs, its files and who may change them."""
