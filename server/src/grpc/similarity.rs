//! `SimilarityService`.
