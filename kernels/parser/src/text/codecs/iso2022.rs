//! Codecs that switch character sets by escape sequences: ISO 2022 and HZ.

use super::tables::{Table, table};
use super::{Decoded, Undecodable};

const ESCAPE: u8 = 0x1b;
const ILLEGAL: &str = "illegal multibyte sequence";
const INCOMPLETE: &str = "incomplete multibyte sequence";
/// CPython's MAX_ESCSEQLEN.
const MAX_ESCAPE: usize = 16;
/// Flags a double-byte set, together with its final byte.
const DOUBLE: u16 = 0x100;
const ASCII: u16 = b'B' as u16;
const LATIN1: u16 = b'A' as u16;
const GREEK: u16 = b'F' as u16;

/// The features of an ISO 2022 codec.
struct Config {
    name: &'static str,
    sets: &'static [u16],
    /// Shift in and shift out switch to the second set, as in Korean.
    shifts: bool,
    /// Has single shifts to G2.
    third: bool,
    /// Accepts the escape that announces a revision of JIS X 0208.
    announced: bool,
}

const JISX0208: u16 = DOUBLE | b'B' as u16;
const JISX0208_OLD: u16 = DOUBLE | b'@' as u16;
const JISX0212: u16 = DOUBLE | b'D' as u16;
const GB2312: u16 = DOUBLE | b'A' as u16;
const KSX1001: u16 = DOUBLE | b'C' as u16;
const JISX0213_2000: u16 = DOUBLE | b'O' as u16;
const JISX0213_2004: u16 = DOUBLE | b'Q' as u16;
const JISX0213_SECOND: u16 = DOUBLE | b'P' as u16;
const ROMAN: u16 = b'J' as u16;
const KATAKANA: u16 = b'I' as u16;

fn config(codec: &str) -> Config {
    let jp = |name, sets| Config { name, sets, shifts: false, third: false, announced: true };
    match codec {
        "iso2022_jp_1" => jp("iso2022_jp_1", &[JISX0208, JISX0212, ROMAN, JISX0208_OLD]),
        "iso2022_jp_2" => Config {
            third: true,
            ..jp("iso2022_jp_2", &[JISX0208, JISX0212, KSX1001, GB2312, ROMAN, JISX0208_OLD, LATIN1, GREEK])
        },
        "iso2022_jp_2004" => jp("iso2022_jp_2004", &[JISX0208, JISX0213_2004, JISX0213_SECOND]),
        "iso2022_jp_3" => jp("iso2022_jp_3", &[JISX0208, JISX0213_2000, JISX0213_SECOND]),
        "iso2022_jp_ext" => jp("iso2022_jp_ext", &[JISX0208, JISX0212, ROMAN, KATAKANA, JISX0208_OLD]),
        "iso2022_kr" => Config { shifts: true, announced: false, ..jp("iso2022_kr", &[KSX1001]) },
        _ => jp("iso2022_jp", &[JISX0208, ROMAN, JISX0208_OLD]),
    }
}

struct Decoder<'a> {
    config: Config,
    bytes: &'a [u8],
    sets: [u16; 3],
    shifted: bool,
    /// Inside an unknown escape sequence, which is kept.
    foreign: bool,
    points: Vec<u32>,
}

/// An undecodable sequence: its length in bytes, or more bytes are needed.
enum SequenceError {
    Illegal(usize),
    Incomplete,
}

pub(super) fn decode(codec: &str, bytes: &[u8]) -> Decoded {
    let config = config(codec);
    let sets = [ASCII; 3];
    let mut decoder =
        Decoder { config, bytes, sets, shifted: false, foreign: false, points: Vec::with_capacity(bytes.len()) };
    let mut offset = 0;
    while offset < bytes.len() {
        let length = decoder.step(offset).map_err(|wrong| match wrong {
            SequenceError::Illegal(length) => Undecodable::new(decoder.config.name, offset, offset + length, ILLEGAL),
            SequenceError::Incomplete => Undecodable::new(decoder.config.name, offset, bytes.len(), INCOMPLETE),
        })?;
        offset += length;
    }
    Ok(decoder.points)
}

impl Decoder<'_> {
    /// Decodes the sequence at an offset; returns its length.
    fn step(&mut self, offset: usize) -> Result<usize, SequenceError> {
        let byte = self.bytes[offset];
        if self.foreign {
            self.foreign = !ends_sequence(byte);
            return Ok(self.plain(byte));
        }
        match byte {
            ESCAPE => self.escape(offset),
            0x0f | 0x0e if self.config.shifts => {
                self.shifted = byte == 0x0e;
                Ok(1)
            }
            b'\n' => {
                self.shifted = false;
                Ok(self.plain(byte))
            }
            0..0x20 => Ok(self.plain(byte)),
            0x80.. => Err(SequenceError::Illegal(1)),
            _ => match self.sets[usize::from(self.shifted)] {
                ASCII => Ok(self.plain(byte)),
                set => self.character(offset, set),
            },
        }
    }

    fn plain(&mut self, byte: u8) -> usize {
        self.points.push(u32::from(byte));
        1
    }

    fn escape(&mut self, offset: usize) -> Result<usize, SequenceError> {
        match *self.bytes.get(offset + 1).ok_or(SequenceError::Incomplete)? {
            b'(' | b')' | b'$' | b'.' | b'&' => self.designate(offset),
            b'N' if self.config.third => self.single_shift(offset),
            _ => {
                self.foreign = true;
                Ok(self.plain(ESCAPE))
            }
        }
    }

    /// An escape sequence that designates G0, G1 or G2.
    fn designate(&mut self, offset: usize) -> Result<usize, SequenceError> {
        let rest = &self.bytes[offset..];
        let mut length = 0;
        let mut next = 1;
        while next < MAX_ESCAPE {
            let byte = *rest.get(next).ok_or(SequenceError::Incomplete)?;
            if ends_sequence(byte) {
                length = next + 1;
                break;
            }
            let announces = self.config.announced && byte == b'&' && rest.get(next + 1) == Some(&b'@');
            next += if announces { 3 } else { 1 };
        }
        let (set, number) = match (length, &rest[..length]) {
            (0, _) => return Err(SequenceError::Illegal(1)),
            (_, &[_, b'$', set] | &[_, b'$', b'(', set]) => (DOUBLE | u16::from(set), 0),
            (_, &[_, b'(', set]) => (u16::from(set), 0),
            (_, &[_, b')', set]) => (u16::from(set), 1),
            (_, &[_, b'.', set]) if self.config.third => (u16::from(set), 2),
            (_, &[_, b'$', b')', set]) => (DOUBLE | u16::from(set), 1),
            (_, &[_, _, _, ESCAPE, b'$', b'B']) if self.config.announced => (JISX0208, 0),
            _ => return Err(SequenceError::Illegal(length)),
        };
        if set != ASCII && !self.config.sets.contains(&set) {
            return Err(SequenceError::Illegal(length));
        }
        self.sets[number] = set;
        Ok(length)
    }

    /// One character of G2.
    fn single_shift(&mut self, offset: usize) -> Result<usize, SequenceError> {
        let byte = *self.bytes.get(offset + 2).ok_or(SequenceError::Incomplete)?;
        let point = match self.sets[2] {
            LATIN1 if byte < 0x80 => Some(u32::from(byte) + 0x80),
            GREEK => greek(byte ^ 0x80),
            ASCII if byte < 0x80 => Some(u32::from(byte)),
            _ => None,
        };
        self.points.push(point.ok_or(SequenceError::Illegal(3))?);
        Ok(3)
    }

    fn character(&mut self, offset: usize, set: u16) -> Result<usize, SequenceError> {
        let byte = self.bytes[offset];
        let single = match (set, byte) {
            (ROMAN, b'\\') => Some(0xa5),
            (ROMAN, b'~') => Some(0x203e),
            (ROMAN, _) => Some(u32::from(byte)),
            (KATAKANA, 0x21..=0x5f) => Some(0xff40 + u32::from(byte)),
            // Latin-1 and Greek need a single shift.
            _ if set & DOUBLE == 0 => None,
            _ => return self.double(offset, set),
        };
        self.points.push(single.ok_or(SequenceError::Illegal(1))?);
        Ok(1)
    }

    fn double(&mut self, offset: usize, set: u16) -> Result<usize, SequenceError> {
        let second = *self.bytes.get(offset + 1).ok_or(SequenceError::Incomplete)?;
        let table = match set {
            JISX0212 => table("jisx0212"),
            GB2312 => table("gb2312_set"),
            KSX1001 => table("ksx1001"),
            JISX0213_2000 => table("jisx0213_2000_1"),
            JISX0213_2004 => table("jisx0213_2004_1"),
            JISX0213_SECOND => table("jisx0213_2"),
            _ => table("jisx0208"),
        };
        let found = in_set(table, self.bytes[offset], second).ok_or(SequenceError::Illegal(2))?;
        self.points.extend(found.into_iter().filter(|&point| point != 0));
        Ok(2)
    }
}

fn in_set(table: &Table, first: u8, second: u8) -> Option<[u32; 2]> {
    let place = |byte: u8| byte.checked_sub(0x21).filter(|&place| place < 94).map(usize::from);
    table.character(place(first)? * 94 + place(second)?)
}

/// A byte of ISO 8859-7:1987.
fn greek(byte: u8) -> Option<u32> {
    match byte {
        0..=0xa0 | 0xa3 | 0xa6..=0xa9 | 0xab..=0xad | 0xb0..=0xb3 | 0xb7 | 0xbb | 0xbd => Some(u32::from(byte)),
        0xb4..=0xfe if byte != 0xd2 => Some(0x2d0 + u32::from(byte)),
        0xa1 => Some(0x2018),
        0xa2 => Some(0x2019),
        0xaf => Some(0x2015),
        _ => None,
    }
}

fn ends_sequence(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'@')
}

/// HZ: GB 2312 between `~{` and `~}`.
pub(super) fn hz(bytes: &[u8]) -> Decoded {
    let mut points = Vec::with_capacity(bytes.len());
    let mut offset = 0;
    let mut chinese = false;
    let illegal = |offset| Undecodable::byte("hz", offset, ILLEGAL);
    while let Some(&byte) = bytes.get(offset) {
        let second = bytes.get(offset + 1);
        let incomplete = || Undecodable::new("hz", offset, bytes.len(), INCOMPLETE);
        if byte == b'~' {
            match (second.ok_or_else(incomplete)?, chinese) {
                (b'~', false) => points.push(u32::from(b'~')),
                (b'{', false) => chinese = true,
                (b'\n', false) => {}
                (b'}', true) => chinese = false,
                _ => return Err(illegal(offset)),
            }
            offset += 2;
        } else if !byte.is_ascii() {
            return Err(illegal(offset));
        } else if chinese {
            let found =
                in_set(table("gb2312_set"), byte, *second.ok_or_else(incomplete)?).ok_or_else(|| illegal(offset))?;
            points.push(found[0]);
            offset += 2;
        } else {
            points.push(u32::from(byte));
            offset += 1;
        }
    }
    Ok(points)
}
