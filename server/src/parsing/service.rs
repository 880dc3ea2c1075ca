//! The service of parsing: checks what a caller sends, and submits it to the lane.

use std::{ops::RangeInclusive, sync::Arc};

use accelerd_engine::{Arrival, Context, Lane};
use accelerd_kernels::ops::parse::{Mode, Options, Outputs, Parse, ParseRequest, ParseResponse, SourceType, size_of};
use bytes::Bytes;
use futures::{Stream, stream::BoxStream};

use super::metrics::ParseMetrics;
use crate::{
    app::App,
    batches::{self, Numbered},
    config::{Limits, to_usize},
    error::{ApiError, Decoded},
    layers::timing,
};

/// Supported minor versions of Python 3; the newest is the default.
const VERSIONS: RangeInclusive<u32> = 8..=14;

/// Sources to parse, as a caller sends them. `T` decodes the types of the sources one by one.
pub(crate) struct SourceBatch<T> {
    pub(crate) sources: Vec<Bytes>,
    /// Minor version of Python 3; 0 means the newest.
    pub(crate) feature_version: u32,
    /// None, one for all sources, or one each.
    pub(crate) source_types: T,
    pub(crate) mode: Decoded<Mode>,
    /// Without any, the tree.
    pub(crate) outputs: Decoded<Outputs>,
}

/// The lane of parsing, limits and instruments.
#[derive(Debug)]
pub(crate) struct ParsingService {
    lane: Lane<Parse>,
    limits: Limits,
    metrics: ParseMetrics,
}

impl ParsingService {
    /// That of a daemon, with a lane of its own.
    pub(crate) fn new(app: &App) -> Self {
        let config = &app.config;
        Self {
            lane: app.engine.lane(config.lanes.lane(&config.lanes.parse)),
            limits: config.limits.clone(),
            metrics: ParseMetrics::new(app.metrics.meter()),
        }
    }

    /// Refuses a request that would miss its deadline, by the length of its message: nearly all of it are sources.
    pub(crate) fn screen(&self, length: u64, context: &Context) -> Result<Arrival, ApiError> {
        Ok(self.lane.screen(size_of(length, 1), length, context)?)
    }

    /// Parses sources. `arrival` is what [`Self::screen`] decided, if it was asked.
    pub(crate) async fn parse<T>(
        &self,
        batch: SourceBatch<T>,
        context: Context,
        arrival: Option<Arc<Arrival>>,
    ) -> Result<ParseResponse, ApiError>
    where
        T: ExactSizeIterator<Item = Decoded<SourceType>> + Send,
    {
        let request = self.check(batch)?;
        let bytes = request.sources.iter().map(|source| source.len() as u64).sum();
        let done = self.lane.submit_arrived(request, context, arrival).await?;
        timing::record(&done);
        self.metrics.record(bytes, &done.response);
        Ok(done.response)
    }

    /// Parses the batches of a stream.
    pub(crate) fn parse_stream<T, E>(
        self: &Arc<Self>,
        context: Context,
        batches: impl Stream<Item = Result<Numbered<SourceBatch<T>>, E>> + Send + 'static,
    ) -> BoxStream<'static, Result<Numbered<ParseResponse>, E>>
    where
        T: ExactSizeIterator<Item = Decoded<SourceType>> + Send + 'static,
        E: From<ApiError> + Send + 'static,
    {
        let service = Arc::clone(self);
        batches::answers(batches, move |batch| {
            let service = Arc::clone(&service);
            let context = context.clone();
            async move { service.parse(batch, context, None).await }
        })
    }

    fn check<T>(&self, batch: SourceBatch<T>) -> Result<ParseRequest, ApiError>
    where
        T: ExactSizeIterator<Item = Decoded<SourceType>>,
    {
        let SourceBatch { sources, feature_version, source_types, mode, outputs } = batch;
        let count = sources.len();
        let max = self.limits.max_sources;
        if !(1..=max).contains(&count) {
            return Err(ApiError::invalid("sources", format!("expected 1 to {max} sources, got {count}")));
        }
        let max = to_usize(self.limits.max_source_bytes);
        if let Some((nth, source)) = sources.iter().enumerate().find(|(_, source)| source.len() > max) {
            let reason = format!("expected at most {max} bytes, got {}", source.len());
            return Err(ApiError::invalid(format!("sources[{nth}]"), reason));
        }
        let mut types = types_of(source_types, count)?;
        let source_type = if types.len() == 1 { types.remove(0) } else { SourceType::default() };
        let options = Options { feature_version: version(feature_version)?, source_type, mode: mode? };
        let requested = outputs?;
        let outputs = if requested == Outputs::default() { Outputs { tree: true, ..requested } } else { requested };
        Ok(ParseRequest { sources, options, types, outputs })
    }
}

fn version(minor: u32) -> Result<u8, ApiError> {
    let oldest = VERSIONS.start();
    let newest = VERSIONS.end();
    let minor = if minor == 0 { *newest } else { minor };
    let known = u8::try_from(minor).ok().filter(|_| VERSIONS.contains(&minor));
    known.ok_or_else(|| {
        let reason = format!("expected {oldest} to {newest}, the minor version of Python 3, got {minor}");
        ApiError::invalid("feature_version", reason)
    })
}

/// The types of `count` sources: none, one for all, or one each.
fn types_of(
    types: impl ExactSizeIterator<Item = Decoded<SourceType>>,
    count: usize,
) -> Result<Vec<SourceType>, ApiError> {
    if types.len() > 1 && types.len() != count {
        let reason = format!("expected 0, 1 or {count} source types, as many as sources, got {}", types.len());
        return Err(ApiError::invalid("source_types", reason));
    }
    types.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(count: usize) -> impl ExactSizeIterator<Item = Decoded<SourceType>> {
        std::iter::repeat_n((), count)
            .map(|()| Err(ApiError::invalid("source_types[0]", "expected a SourceType, got 9")))
    }

    #[test]
    fn the_number_of_types_is_checked_before_the_types() {
        let refused = |count| types_of(types(count), 3).expect_err("it must be refused").to_string();
        assert_eq!(refused(2), "source_types: expected 0, 1 or 3 source types, as many as sources, got 2");
        assert_eq!(refused(3), "source_types[0]: expected a SourceType, got 9");
        assert_eq!(types_of(types(0), 3).expect("none are needed"), []);
    }

    #[test]
    fn the_newest_version_is_the_default() {
        assert_eq!(version(0).expect("it is the default"), 14);
        assert_eq!(version(8).expect("it is supported"), 8);
        let refused = version(15).expect_err("it must be refused").to_string();
        assert_eq!(refused, "feature_version: expected 8 to 14, the minor version of Python 3, got 15");
    }
}
