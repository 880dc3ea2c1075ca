//! Reads log files, and distinguishes valid records, a torn tail and corruption.

use std::{
    fs::File,
    io::{BufReader, Read, Seek as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{
    Record, StoreError,
    frame::{FILE_HEADER, FRAME_HEADER, FRAME_MAGIC, FileHeader, FrameHeader},
};

/// The unit in which file systems leave zeros where data was not written.
const SECTOR: u64 = 512;

/// A log file that is being read.
pub(crate) struct LogReader {
    path: PathBuf,
    file: BufReader<File>,
    len: u64,
    pub(crate) salt: u32,
    /// Where the next frame starts; all bytes before it are valid.
    pub(crate) offset: u64,
    /// Sequence number that the next frame must have.
    pub(crate) next: u64,
    is_last: bool,
    /// Bytes known to have been durable.
    durable: u64,
}

/// The result of reading at the current offset.
pub(crate) enum Item {
    /// A valid frame: its sequence number and record.
    Record(u64, Record),
    /// The end of the valid records; a torn tail may follow.
    End,
}

impl LogReader {
    /// Opens the log file named after `first`, its first sequence number. The first `durable` bytes are known to have
    /// been durable.
    pub(crate) fn open(path: &Path, first: u64, is_last: bool, durable: u64) -> Result<Self, StoreError> {
        let io = |e| StoreError::io(path, e);
        let file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        let buffer = usize::try_from(len).unwrap_or(usize::MAX).clamp(4 << 10, 1 << 20);
        let file = BufReader::with_capacity(buffer, file);
        let mut reader = Self { path: path.into(), file, len, salt: 0, offset: 0, next: first, is_last, durable };
        let header = reader.read(0, len.min(FILE_HEADER as u64))?;
        match <&[u8; FILE_HEADER]>::try_from(&header[..]).ok().and_then(FileHeader::parse) {
            Some(found) if found.first == first => {
                (reader.offset, reader.salt) = (FILE_HEADER as u64, found.salt);
                Ok(reader)
            }
            Some(found) => Err(reader
                .corrupt(0, format!("its header names record {} as the first, its file name {first}", found.first))),
            // A log file is renamed to its name once its header is durable, so no crash leaves one without a header.
            None if len < FILE_HEADER as u64 => {
                Err(reader.corrupt(len, format!("it ends within its header; records from {first} on are lost")))
            }
            None => Err(reader.corrupt(0, "invalid file header")),
        }
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Item, StoreError> {
        if self.offset == self.len {
            return Ok(Item::End);
        }
        let start = self.offset;
        let Some(header) = self.header_at(start)? else {
            return self.classify_invalid(start, start + FRAME_HEADER as u64, "invalid frame header");
        };
        let end = start + FRAME_HEADER as u64 + u64::from(header.len);
        if end > self.len {
            return self.classify_invalid(start, end, "a frame extends past the end of the file");
        }
        let body = self.read(start + FRAME_HEADER as u64, u64::from(header.len))?;
        if crc32fast::hash(&body) != header.body_crc {
            return self.classify_invalid(start, end, "checksum mismatch in the body of a frame");
        }
        if header.sequence != self.next {
            return Err(self.corrupt(start, format!("expected record {}, got {}", self.next, header.sequence)));
        }
        let record = Record::parse(header.kind, body).map_err(|reason| self.corrupt(start, reason))?;
        (self.offset, self.next) = (end, header.sequence + 1);
        Ok(Item::Record(header.sequence, record))
    }

    /// Decides whether an invalid frame is a torn tail or corruption.
    fn classify_invalid(&mut self, start: u64, end: u64, reason: &str) -> Result<Item, StoreError> {
        if !self.is_last {
            return Err(self.corrupt(start, format!("{reason}, but a later log file exists")));
        }
        if start < self.durable {
            return Err(self.corrupt(start, format!("{reason}, but {} bytes had been durable", self.durable)));
        }
        if let Some(later) = self.synced_before(start)? {
            return Err(
                self.corrupt(start, format!("{reason}, but record {later} shows that the frame had been synced"))
            );
        }
        if end > self.len || self.has_zero_sector(start, end)? {
            tracing::warn!(file = %self.path.display(), offset = start, bytes = self.len - start, "truncating a torn tail");
            return Ok(Item::End);
        }
        Err(self.corrupt(start, format!("{reason}, but the frame was written completely")))
    }

    /// Sequence number of the first valid frame after `start` that was written once the bytes at `start` were durable.
    fn synced_before(&mut self, start: u64) -> Result<Option<u64>, StoreError> {
        const WINDOW: u64 = 1 << 20;
        let mut at = start + 1;
        while at + FRAME_HEADER as u64 <= self.len {
            let window = self.read(at, WINDOW.min(self.len - at))?;
            for i in (0..window.len()).filter(|i| window[*i..].starts_with(FRAME_MAGIC)) {
                let header = self.header_at(at + i as u64)?;
                if let Some(header) = header.filter(|header| header.durable > start && header.sequence >= self.next) {
                    return Ok(Some(header.sequence));
                }
            }
            // Windows overlap, so that no magic across a boundary is missed.
            at += (window.len() as u64).saturating_sub(FRAME_MAGIC.len() as u64 - 1).max(1);
        }
        Ok(None)
    }

    /// Whether the part of `start..end` within some sector is all zeros.
    fn has_zero_sector(&mut self, start: u64, end: u64) -> Result<bool, StoreError> {
        let mut at = start;
        while at < end {
            let next = ((at / SECTOR + 1) * SECTOR).min(end);
            if is_zero(&self.read(at, next - at)?) {
                return Ok(true);
            }
            at = next;
        }
        Ok(false)
    }

    fn header_at(&mut self, at: u64) -> Result<Option<FrameHeader>, StoreError> {
        let header = self.read(at, (FRAME_HEADER as u64).min(self.len - at))?;
        Ok(<&[u8; FRAME_HEADER]>::try_from(&header[..]).ok().and_then(|h| FrameHeader::parse(h, self.salt)))
    }

    /// Reads a range within the file.
    fn read(&mut self, at: u64, len: u64) -> Result<Bytes, StoreError> {
        let mut read = || {
            let here = self.file.stream_position()?;
            self.file.seek_relative(at.cast_signed() - here.cast_signed())?;
            let mut bytes = vec![0; usize::try_from(len).map_err(std::io::Error::other)?];
            self.file.read_exact(&mut bytes)?;
            Ok(bytes.into())
        };
        read().map_err(|e| StoreError::io(&self.path, e))
    }

    /// Bytes of the file, including a torn tail.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    fn corrupt(&self, offset: u64, reason: impl Into<String>) -> StoreError {
        StoreError::Corrupt { file: self.path.clone(), offset, reason: reason.into() }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Truncates a log file after its last valid record and syncs it: a crash may have come between a write and its sync.
pub(crate) fn truncate(path: &Path, len: u64) -> Result<(), StoreError> {
    let truncate = || {
        let file = File::options().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    };
    truncate().map_err(|e| StoreError::io(path, e))
}
