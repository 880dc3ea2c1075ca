//! A codec that encodes a shared message, so that a retry does not copy it.

use std::{marker::PhantomData, sync::Arc};

use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Encodes `Arc<Q>`, decodes `R`.
pub(crate) struct Shared<Q, R>(PhantomData<(Q, R)>);

impl<Q, R> Default for Shared<Q, R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Q, R> Codec for Shared<Q, R>
where
    Q: Message + 'static,
    R: Message + Default + 'static,
{
    type Encode = Arc<Q>;
    type Decode = R;
    type Encoder = SharedEncoder<Q>;
    type Decoder = PlainDecoder<R>;

    fn encoder(&mut self) -> Self::Encoder {
        SharedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        PlainDecoder(PhantomData)
    }
}

/// Encodes a shared message into a buffer of the right size, so that a large one is copied once.
pub(crate) struct SharedEncoder<Q>(PhantomData<Q>);

impl<Q: Message> Encoder for SharedEncoder<Q> {
    type Item = Arc<Q>;
    type Error = Status;

    fn encode(&mut self, item: Arc<Q>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(item.encoded_len());
        item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

/// Decodes a message; its `bytes` fields share the received buffer.
pub(crate) struct PlainDecoder<R>(PhantomData<R>);

impl<R: Message + Default> Decoder for PlainDecoder<R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        R::decode(buffer).map(Some).map_err(|error| Status::internal(format!("malformed response: {error}")))
    }
}
