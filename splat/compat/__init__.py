"""For programs written for other libraries: gsplat 1.4.0's results, and gsplat's own code with our operators."""
