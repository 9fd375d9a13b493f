"""Messages of Protocol Buffers: their descriptors, the types that they are decoded to, and the kernel's programs."""
