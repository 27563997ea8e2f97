"""For programs written for other libraries: their results of other versions, their code with our operators."""
