//! Cases of functions: generated inputs, and failing ones made simple.
