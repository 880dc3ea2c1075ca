//! The headers of a log file and of its frames.

use bytes::{Buf, BufMut};

/// Bytes of a file's header.
pub(crate) const FILE_HEADER: usize = 24;
/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER: usize = 36;

const FILE_MAGIC: &[u8; 8] = b"ACCLWAL1";
/// The format that the magic bytes name.
pub(crate) const FORMAT: u32 = 1;
/// Magic bytes of a frame.
pub(crate) const FRAME_MAGIC: &[u8; 4] = b"WREC";

/// The header of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// Sequence number of the first frame.
    pub(crate) first: u64,
    /// Random salt of every frame's checksum, so that bytes from a client cannot pass for a frame.
    pub(crate) salt: u32,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER] {
        let mut header = [0; FILE_HEADER];
        let mut into = &mut header[..];
        into.put_slice(FILE_MAGIC);
        into.put_u64_le(self.first);
        into.put_u32_le(self.salt);
        let crc = crc32fast::hash(&header[..20]);
        header[20..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    pub(crate) fn parse(header: &[u8; FILE_HEADER]) -> Option<Self> {
        let (mut content, mut crc) = header.split_at(20);
        if !content.starts_with(FILE_MAGIC) || crc.get_u32_le() != crc32fast::hash(content) {
            return None;
        }
        content.advance(8);
        Some(Self { first: content.get_u64_le(), salt: content.get_u32_le() })
    }

    /// The later format that a header names. A header of this format with a damaged digit has none: its checksum shows
    /// what the digit was.
    pub(crate) fn later_format(header: &[u8; FILE_HEADER]) -> Option<u32> {
        let magic = &FILE_MAGIC[..7];
        let digit = char::from(header[7]).to_digit(10)?;
        let mut ours = *header;
        ours[7] = FILE_MAGIC[7];
        (header.starts_with(magic) && digit > FORMAT && Self::parse(&ours).is_none()).then_some(digit)
    }

    /// The salt of a header whose checksum does not match, which may be damaged.
    pub(crate) fn raw_salt(header: &[u8; FILE_HEADER]) -> u32 {
        (&header[16..20]).get_u32_le()
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: u8,
    pub(crate) len: u32,
    pub(crate) body_crc: u32,
    pub(crate) sequence: u64,
    /// Offset up to which the file was durable before this frame was written.
    pub(crate) durable: u64,
}

impl FrameHeader {
    pub(crate) fn encode(&self, salt: u32) -> [u8; FRAME_HEADER] {
        let mut header = [0; FRAME_HEADER];
        let mut into = &mut header[..];
        into.put_slice(FRAME_MAGIC);
        into.put_slice(&[self.kind, 0, 0, 0]);
        into.put_u32_le(self.len);
        into.put_u32_le(self.body_crc);
        into.put_u64_le(self.sequence);
        into.put_u64_le(self.durable);
        let crc = salted(salt, &header[..32]);
        header[32..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    pub(crate) fn parse(header: &[u8; FRAME_HEADER], salt: u32) -> Option<Self> {
        let (mut content, mut crc) = header.split_at(32);
        if !content.starts_with(FRAME_MAGIC) || crc.get_u32_le() != salted(salt, content) {
            return None;
        }
        content.advance(4);
        let kind = content.get_u8();
        content.advance(3);
        Some(Self {
            kind,
            len: content.get_u32_le(),
            body_crc: content.get_u32_le(),
            sequence: content.get_u64_le(),
            durable: content.get_u64_le(),
        })
    }

    /// The salt with which a header is valid. Every header has one, so that this proves nothing about it.
    pub(crate) fn salt_of(header: &[u8; FRAME_HEADER]) -> u32 {
        const POLYNOMIAL: u32 = 0xedb8_8320;
        let (content, mut crc) = header.split_at(32);
        let back = |state: u32| if state >> 31 == 1 { ((state ^ POLYNOMIAL) << 1) | 1 } else { state << 1 };
        let undo = |state: u32, byte: &u8| (0..8).fold(state, |state, _| back(state)) ^ u32::from(*byte);
        !content.iter().rev().fold(!crc.get_u32_le(), undo)
    }
}

fn salted(salt: u32, content: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new_with_initial(salt);
    crc.update(content);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_salt_of_a_header_is_known_from_its_checksum() {
        for salt in [0, 1, 7, 0x8000_0000, 0xdead_beef, u32::MAX] {
            let frame = FrameHeader { kind: 1, len: 9, body_crc: 8, sequence: 7, durable: 24 };
            assert_eq!(FrameHeader::salt_of(&frame.encode(salt)), salt);
        }
    }

    #[test]
    fn a_later_format_is_told_from_a_damaged_digit() {
        let ours = FileHeader { first: 1, salt: 7 }.encode();
        assert_eq!(FileHeader::later_format(&ours), None);
        let mut damaged = ours;
        damaged[7] = b'3';
        assert_eq!(FileHeader::later_format(&damaged), None);
        let mut later = damaged;
        let crc = crc32fast::hash(&later[..20]);
        later[20..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(FileHeader::later_format(&later), Some(3));
    }

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_detected() {
        let frame = FrameHeader { kind: 2, len: 77, body_crc: 0xdead_beef, sequence: u64::MAX - 1, durable: 1 << 40 };
        let header = FileHeader { first: 42, salt: 7 };
        let file = header.encode();
        let encoded = frame.encode(7);
        assert_eq!(FileHeader::parse(&file), Some(header));
        assert_eq!(FrameHeader::parse(&encoded, 7), Some(frame));
        assert_eq!(FrameHeader::parse(&encoded, 8), None);
        for bit in 0..FILE_HEADER * 8 {
            let mut bad = file;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::parse(&bad), None);
        }
        for bit in 0..FRAME_HEADER * 8 {
            let mut bad = encoded;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::parse(&bad, 7), None);
        }
    }
}
