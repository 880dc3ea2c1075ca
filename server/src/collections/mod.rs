//! Named collections: ids and payloads over a resident corpus, kept on disk when durable.
