//! Decompression within a limit, with its memory charged as it is produced. The gRPC port decompresses messages by it as well.

use std::io::{self, BufReader, Read};

/// Decompressed bytes are charged in steps of this size.
const CHARGE_STEP: usize = 64 << 10;

/// Base-2 logarithm of the largest window of a zstd frame: what `zstd -19` uses. The window is not charged.
const ZSTD_WINDOW_LOG: u32 = 23;

/// The outcome of a decompression that did not fail to read.
#[derive(Debug)]
pub enum Decompressed<E> {
    /// All bytes.
    Whole(Vec<u8>),
    /// More bytes than the limit.
    TooLarge,
    /// Bytes whose memory was refused.
    Refused(E),
}

/// A decoder of zstd whose window is bounded.
pub fn zstd_decoder(data: &[u8]) -> io::Result<zstd::Decoder<'static, BufReader<&[u8]>>> {
    let mut decoder = zstd::Decoder::new(data)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    Ok(decoder)
}

/// Reads at most `limit` bytes, charging them before more are read.
pub fn read_within<E>(
    mut reader: impl Read,
    limit: usize,
    mut charge: impl FnMut(u64) -> Result<(), E>,
) -> io::Result<Decompressed<E>> {
    let mut out = vec![];
    loop {
        let step = CHARGE_STEP.min(limit - out.len() + 1);
        let before = out.len();
        if reader.by_ref().take(step as u64).read_to_end(&mut out)? == 0 {
            return Ok(Decompressed::Whole(out));
        }
        if out.len() > limit {
            return Ok(Decompressed::TooLarge);
        }
        if let Err(refusal) = charge((out.len() - before) as u64) {
            return Ok(Decompressed::Refused(refusal));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_window_that_would_take_much_memory_is_refused() {
        let frame = |window_log| {
            let mut encoder = zstd::Encoder::new(vec![], 1).expect("an encoder");
            encoder.set_parameter(zstd::zstd_safe::CParameter::WindowLog(window_log)).expect("a window");
            encoder.write_all(b"text").and_then(|()| encoder.finish()).expect("written to memory")
        };
        let read = |frame: &[u8]| read_within(zstd_decoder(frame)?, 100, |_| Ok::<_, ()>(()));
        let whole = read(&frame(ZSTD_WINDOW_LOG)).expect("it is small enough");
        assert!(matches!(whole, Decompressed::Whole(out) if out == b"text"));
        read(&frame(ZSTD_WINDOW_LOG + 1)).expect_err("it is larger");
    }

    #[test]
    fn bytes_are_charged_before_more_are_read() {
        let data = vec![0; 3 * CHARGE_STEP];
        let mut charged = vec![];
        let refuse_second = |bytes| {
            charged.push(bytes);
            if charged.len() == 2 { Err("full") } else { Ok(()) }
        };
        let read = read_within(&data[..], data.len(), refuse_second).expect("memory");
        assert!(matches!(read, Decompressed::Refused("full")));
        assert_eq!(charged, [CHARGE_STEP as u64; 2]);
        let read = read_within(&data[..], data.len() - 1, |_| Ok::<_, ()>(())).expect("memory");
        assert!(matches!(read, Decompressed::TooLarge));
    }
}
