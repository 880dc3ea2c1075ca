//! Reads log files, and distinguishes valid records, a torn tail and corruption.

use std::{
    fs::File,
    io::{BufReader, Read, Seek as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{
    Record, StoreError,
    frame::{self, FILE_HEADER, FRAME_HEADER, FRAME_MAGIC, FileHeader, FrameHeader},
};

/// The unit in which file systems leave zeros where data was not written.
const SECTOR: u64 = 512;
/// Bytes that are searched for a frame at a time.
const WINDOW: u64 = 1 << 20;

/// A log file that is being read.
pub(crate) struct LogReader {
    path: PathBuf,
    file: BufReader<File>,
    len: u64,
    pub(crate) salt: u32,
    /// Where the next frame starts; all bytes before it have been read.
    pub(crate) offset: u64,
    /// Sequence number that the next frame must have.
    pub(crate) next: u64,
    is_last: bool,
    /// Bytes known to have been durable.
    durable: u64,
    /// Damage of the file's header, which is the first item.
    pending: Option<StoreError>,
}

/// The result of reading at the current offset.
pub(crate) enum Item {
    /// A valid frame: its offset, sequence number and record.
    Record { offset: u64, sequence: u64, record: Record },
    /// Bytes that are not a valid frame. Reading continues after them.
    Damaged(StoreError),
    /// The end of the valid records; a torn tail may follow.
    End,
}

impl LogReader {
    /// Opens the log file named after `first`, its first sequence number. The first `durable` bytes are known to have
    /// been durable, and `salt` to be its salt.
    pub(crate) fn open(
        path: &Path,
        first: u64,
        is_last: bool,
        durable: u64,
        salt: Option<u32>,
    ) -> Result<Self, StoreError> {
        let io = |e| StoreError::io(path, e);
        let file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        let buffer = usize::try_from(len).unwrap_or(usize::MAX).clamp(4 << 10, 1 << 20);
        let file = BufReader::with_capacity(buffer, file);
        let path = path.into();
        let offset = FILE_HEADER as u64;
        let pending = None;
        let mut reader = Self { path, file, len, salt: 0, offset, next: first, is_last, durable, pending };
        reader.read_header(first, salt)?;
        Ok(reader)
    }

    fn read_header(&mut self, first: u64, salt: Option<u32>) -> Result<(), StoreError> {
        let header = self.read(0, self.len.min(FILE_HEADER as u64))?;
        let Ok(header) = <&[u8; FILE_HEADER]>::try_from(&header[..]) else {
            // A log file is renamed to its name once its header is durable, so no crash leaves one without a header.
            let reason = format!("it ends within its header; records from {first} on are lost");
            self.pending = Some(self.corrupt(self.len, reason));
            self.offset = self.len;
            return Ok(());
        };
        if let Some(got) = FileHeader::later_format(header) {
            let file = self.path.display().to_string();
            return Err(StoreError::Format { file, got, known: frame::FORMAT });
        }
        let Some(found) = FileHeader::parse(header) else {
            self.pending = Some(self.corrupt(0, "invalid file header"));
            return self.find_salt(header, salt);
        };
        self.salt = found.salt;
        if found.first != first {
            let reason = format!("its header names record {} as the first, its file name {first}", found.first);
            self.pending = Some(self.corrupt(0, reason));
        }
        Ok(())
    }

    /// Finds the salt of a file whose header is damaged, and its first frame. Without the salt no frame is valid.
    fn find_salt(&mut self, header: &[u8; FILE_HEADER], known: Option<u32>) -> Result<(), StoreError> {
        let start = FILE_HEADER as u64;
        // A header that lost bytes moves the first frame forward.
        for offset in (0..=start).rev() {
            if self.is_first_frame(offset)? {
                self.offset = offset;
                return Ok(());
            }
        }
        let first = self.next;
        for salt in known.into_iter().chain([FileHeader::raw_salt(header)]) {
            self.salt = salt;
            if self.find_frame(start, |frame| frame.sequence >= first)?.is_some() {
                return Ok(());
            }
        }
        self.offset = self.len;
        Ok(())
    }

    /// Returns true if the first frame starts here, which is at most at the end of the file's header: no client can write those bytes.
    /// Sets the salt with which it is valid.
    fn is_first_frame(&mut self, start: u64) -> Result<bool, StoreError> {
        if start + FRAME_HEADER as u64 > self.len {
            return Ok(false);
        }
        let frame = self.read(start, FRAME_HEADER as u64)?;
        let frame = <&[u8; FRAME_HEADER]>::try_from(&frame[..]).expect("as many bytes were read");
        self.salt = FrameHeader::salt_of(frame);
        let first = self.next;
        match FrameHeader::parse(frame, self.salt).filter(|frame| frame.sequence == first) {
            Some(frame) => Ok(self.body_of(start, &frame)?.is_some()),
            None => Ok(false),
        }
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Item, StoreError> {
        if let Some(damage) = self.pending.take() {
            return Ok(Item::Damaged(damage));
        }
        if self.offset == self.len {
            return Ok(Item::End);
        }
        let start = self.offset;
        match self.read_frame(start) {
            Err(error) if error.is_unreadable() => {
                self.offset = self.len;
                Ok(Item::Damaged(self.corrupt(start, format!("it cannot be read from here on: {error}"))))
            }
            item => item,
        }
    }

    fn read_frame(&mut self, start: u64) -> Result<Item, StoreError> {
        let Some(header) = self.header_at(start)? else {
            return self.classify_invalid(start, start + FRAME_HEADER as u64, "invalid frame header");
        };
        let end = start + FRAME_HEADER as u64 + u64::from(header.len);
        if end > self.len {
            return self.classify_invalid(start, end, "a frame extends past the end of the file");
        }
        let Some(body) = self.body_of(start, &header)? else {
            return self.classify_invalid(start, end, "checksum mismatch in the body of a frame");
        };
        let expected = self.next;
        let sequence = header.sequence;
        self.offset = end;
        if sequence < expected {
            return Ok(Item::Damaged(self.corrupt(start, format!("expected record {expected}, got {sequence} again"))));
        }
        if sequence > expected {
            // The frame is read again, as the expected one.
            (self.offset, self.next) = (start, sequence);
            return Ok(Item::Damaged(self.corrupt(start, format!("expected record {expected}, got {sequence}"))));
        }
        self.next = sequence + 1;
        Ok(match Record::parse(header.kind, body) {
            Ok(record) => Item::Record { offset: start, sequence, record },
            Err(reason) => Item::Damaged(self.corrupt(start, reason)),
        })
    }

    /// The body of a frame that starts here, if it is whole.
    fn body_of(&mut self, start: u64, header: &FrameHeader) -> Result<Option<Bytes>, StoreError> {
        let body_start = start + FRAME_HEADER as u64;
        let len = u64::from(header.len);
        if body_start + len > self.len {
            return Ok(None);
        }
        let body = self.read(body_start, len)?;
        Ok((crc32fast::hash(&body) == header.body_crc).then_some(body))
    }

    /// Decides whether an invalid frame is a torn tail or corruption.
    fn classify_invalid(&mut self, start: u64, end: u64, reason: &str) -> Result<Item, StoreError> {
        if !self.is_last {
            return self.skip_damage(start, &format!("{reason}, but a later log file exists"));
        }
        if start < self.durable {
            return self.skip_damage(start, &format!("{reason}, but {} bytes had been durable", self.durable));
        }
        let next = self.next;
        let synced_before = self.find_frame(start + 1, |later| later.durable > start && later.sequence >= next)?;
        if let Some((_, later)) = synced_before {
            let later = later.sequence;
            return self
                .skip_damage(start, &format!("{reason}, but record {later} shows that the frame had been synced"));
        }
        if end > self.len || self.has_zero_sector(start, end)? {
            return Ok(Item::End);
        }
        self.skip_damage(start, &format!("{reason}, but the frame was written completely"))
    }

    /// Goes on with the next valid frame after damage at `start`.
    fn skip_damage(&mut self, start: u64, reason: &str) -> Result<Item, StoreError> {
        let expected = self.next;
        let next_frame = self.find_frame(start + 1, |later| later.sequence >= expected)?;
        let lost = if let Some((offset, header)) = next_frame {
            (self.offset, self.next) = (offset, header.sequence);
            format!("; records {expected} to {} are lost", header.sequence.saturating_sub(1))
        } else {
            self.offset = self.len;
            format!("; no record from {expected} on is left in this file")
        };
        // A copy of an earlier frame, or zeros that took no record's place.
        let lost = if self.next == expected && self.offset < self.len { String::new() } else { lost };
        Ok(Item::Damaged(self.corrupt(start, format!("{reason}{lost}"))))
    }

    /// The first valid header of a frame from an offset on that is accepted, and where it starts.
    fn find_frame(
        &mut self,
        from: u64,
        accept: impl Fn(&FrameHeader) -> bool,
    ) -> Result<Option<(u64, FrameHeader)>, StoreError> {
        let mut offset = from;
        while offset + FRAME_HEADER as u64 <= self.len {
            let window = self.read(offset, WINDOW.min(self.len - offset))?;
            for i in (0..window.len()).filter(|i| window[*i..].starts_with(FRAME_MAGIC)) {
                let header = self.header_at(offset + i as u64)?;
                if let Some(header) = header.filter(&accept) {
                    return Ok(Some((offset + i as u64, header)));
                }
            }
            // Windows overlap, so that no magic across a boundary is missed.
            offset += (window.len() as u64).saturating_sub(FRAME_MAGIC.len() as u64 - 1).max(1);
        }
        Ok(None)
    }

    /// Returns true if the part of `start..end` within some sector is all zeros.
    fn has_zero_sector(&mut self, start: u64, end: u64) -> Result<bool, StoreError> {
        let mut offset = start;
        while offset < end {
            let next = ((offset / SECTOR + 1) * SECTOR).min(end);
            if is_zero(&self.read(offset, next - offset)?) {
                return Ok(true);
            }
            offset = next;
        }
        Ok(false)
    }

    fn header_at(&mut self, offset: u64) -> Result<Option<FrameHeader>, StoreError> {
        let header = self.read(offset, (FRAME_HEADER as u64).min(self.len - offset))?;
        Ok(<&[u8; FRAME_HEADER]>::try_from(&header[..]).ok().and_then(|h| FrameHeader::parse(h, self.salt)))
    }

    /// Reads a range within the file.
    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        let mut read = || {
            let here = self.file.stream_position()?;
            self.file.seek_relative(offset.cast_signed() - here.cast_signed())?;
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
