"""The public functions, and what torch must know about the compiled operators."""

# Every import of splat makes the classes in these modules: plain ones, as NamedTuples take six times as long to make.
