//! The encodings that a source may declare, by the names that CPython knows them by.
//!
//! Left out, so that they are unknown here and known to CPython: those that are not ASCII in the lower half, which no
//! declaration can be read in, and sets that hardly any source was ever written in (some of the Macintosh's, `koi8_t`,
//! `hp_roman8`, `johab` and the like).

use std::borrow::Cow;

use encoding_rs::{DecoderResult, Encoding};
use oem_cp::{code_table::DECODING_TABLE_CP_MAP, code_table_type::TableType};

/// How bytes become characters.
pub(super) enum Codec {
    Utf8,
    Ascii,
    Latin1,
    /// One byte a character; those without one are C1 controls to the crate.
    Table(&'static Encoding),
    /// The same, but bytes up to 0x9f are controls.
    Iso(&'static Encoding),
    /// One byte a character, the lower half ASCII; a code page of DOS. Those without one may be C1 controls to the crate.
    Page(&'static TableType),
    /// Several bytes a character, with the name that errors have.
    Multibyte(&'static Encoding, &'static str),
}

/// A byte that stands for nothing.
pub(super) struct Undecodable {
    pub(super) at: usize,
    reason: Reason,
}

enum Reason {
    Utf8,
    Ascii,
    Table,
    Multibyte(&'static str),
}

impl Undecodable {
    fn new(at: usize, reason: Reason) -> Self {
        Self { at, reason }
    }

    /// CPython's words for it, with the position that CPython counts.
    pub(super) fn message(&self, source: &[u8], position: usize) -> String {
        let (codec, reason) = match self.reason {
            Reason::Utf8 => return super::utf8_message(source, self.at),
            Reason::Ascii => ("ascii", "ordinal not in range(128)"),
            Reason::Table => ("charmap", "character maps to <undefined>"),
            Reason::Multibyte(codec) => (codec, "illegal multibyte sequence"),
        };
        format!("'{codec}' codec can't decode byte {:#04x} in position {position}: {reason}", source[self.at])
    }
}

impl Codec {
    /// The codec of a name, whose case and punctuation do not matter.
    pub(super) fn named(name: &str) -> Option<Self> {
        use encoding_rs as rs;
        let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let name = words.collect::<Vec<_>>().join("_").to_ascii_lowercase();
        Some(match name.as_str() {
            "utf_8" | "utf8" | "u8" | "utf" | "utf8_ucs2" | "utf8_ucs4" | "cp65001" | "utf_8_sig" => Self::Utf8,
            "ascii" | "646" | "ansi_x3_4_1968" | "ansi_x3_4_1986" | "cp367" | "csascii" | "ibm367" | "iso646_us"
            | "iso_646_irv_1991" | "iso_ir_6" | "us" | "us_ascii" => Self::Ascii,
            "latin_1" | "8859" | "cp819" | "csisolatin1" | "ibm819" | "iso8859" | "iso8859_1" | "iso_8859_1"
            | "iso_8859_1_1987" | "iso_ir_100" | "l1" | "latin" | "latin1" => Self::Latin1,
            "cp1250" | "1250" | "windows_1250" => Self::Table(rs::WINDOWS_1250),
            "cp1251" | "1251" | "windows_1251" => Self::Table(rs::WINDOWS_1251),
            "cp1252" | "1252" | "windows_1252" => Self::Table(rs::WINDOWS_1252),
            "cp1253" | "1253" | "windows_1253" => Self::Table(rs::WINDOWS_1253),
            "cp1254" | "1254" | "windows_1254" => Self::Table(rs::WINDOWS_1254),
            "cp1255" | "1255" | "windows_1255" => Self::Table(rs::WINDOWS_1255),
            "cp1256" | "1256" | "windows_1256" => Self::Table(rs::WINDOWS_1256),
            "cp1257" | "1257" | "windows_1257" => Self::Table(rs::WINDOWS_1257),
            "cp1258" | "1258" | "windows_1258" => Self::Table(rs::WINDOWS_1258),
            "cp874" => Self::Table(rs::WINDOWS_874),
            "cp866" | "866" | "csibm866" | "ibm866" => Self::Table(rs::IBM866),
            "cp437" | "437" | "ibm437" | "cspc8codepage437" => Self::page(437)?,
            "cp737" => Self::page(737)?,
            "cp775" | "775" | "ibm775" | "cspc775baltic" => Self::page(775)?,
            "cp850" | "850" | "ibm850" | "cspc850multilingual" => Self::page(850)?,
            "cp852" | "852" | "ibm852" | "cspcp852" => Self::page(852)?,
            "cp855" | "855" | "ibm855" | "csibm855" => Self::page(855)?,
            "cp857" | "857" | "ibm857" | "csibm857" => Self::page(857)?,
            "cp858" | "858" | "ibm858" | "csibm858" => Self::page(858)?,
            "cp860" | "860" | "ibm860" | "csibm860" => Self::page(860)?,
            "cp861" | "861" | "ibm861" | "csibm861" | "cp_is" => Self::page(861)?,
            "cp862" | "862" | "ibm862" | "cspc862latinhebrew" => Self::page(862)?,
            "cp863" | "863" | "ibm863" | "csibm863" => Self::page(863)?,
            "cp865" | "865" | "ibm865" | "csibm865" => Self::page(865)?,
            "cp869" | "869" | "ibm869" | "csibm869" | "cp_gr" => Self::page(869)?,
            "koi8_r" | "cskoi8r" => Self::Table(rs::KOI8_R),
            "koi8_u" => Self::Table(rs::KOI8_U),
            "mac_roman" | "macintosh" | "macroman" => Self::Table(rs::MACINTOSH),
            "mac_cyrillic" | "maccyrillic" => Self::Table(rs::X_MAC_CYRILLIC),
            "iso8859_2" | "csisolatin2" | "iso_8859_2" | "iso_8859_2_1987" | "iso_ir_101" | "l2" | "latin2" => {
                Self::Iso(rs::ISO_8859_2)
            }
            "iso8859_3" | "csisolatin3" | "iso_8859_3" | "iso_8859_3_1988" | "iso_ir_109" | "l3" | "latin3" => {
                Self::Iso(rs::ISO_8859_3)
            }
            "iso8859_4" | "csisolatin4" | "iso_8859_4" | "iso_8859_4_1988" | "iso_ir_110" | "l4" | "latin4" => {
                Self::Iso(rs::ISO_8859_4)
            }
            "iso8859_5" | "csisolatincyrillic" | "cyrillic" | "iso_8859_5" | "iso_8859_5_1988" | "iso_ir_144" => {
                Self::Iso(rs::ISO_8859_5)
            }
            "iso8859_6" | "arabic" | "asmo_708" | "csisolatinarabic" | "ecma_114" | "iso_8859_6"
            | "iso_8859_6_1987" | "iso_ir_127" => Self::Iso(rs::ISO_8859_6),
            "iso8859_7" | "csisolatingreek" | "greek" | "greek8" | "iso_8859_7" | "iso_8859_7_1987" | "iso_ir_126" => {
                Self::Iso(rs::ISO_8859_7)
            }
            "iso8859_8" | "csisolatinhebrew" | "hebrew" | "iso_8859_8" | "iso_8859_8_1988" | "iso_ir_138" => {
                Self::Iso(rs::ISO_8859_8)
            }
            "iso8859_9" | "csisolatin5" | "iso_8859_9" | "iso_8859_9_1989" | "iso_ir_148" | "l5" | "latin5" => {
                Self::Iso(rs::WINDOWS_1254)
            }
            "iso8859_11" | "iso_8859_11" | "iso_8859_11_2001" | "thai" => Self::Iso(rs::WINDOWS_874),
            "iso8859_10" | "csisolatin6" | "iso_8859_10" | "iso_8859_10_1992" | "iso_ir_157" | "l6" | "latin6" => {
                Self::Iso(rs::ISO_8859_10)
            }
            "iso8859_13" | "iso_8859_13" | "l7" | "latin7" => Self::Iso(rs::ISO_8859_13),
            "iso8859_14" | "iso_8859_14" | "iso_8859_14_1998" | "iso_celtic" | "iso_ir_199" | "l8" | "latin8" => {
                Self::Iso(rs::ISO_8859_14)
            }
            "iso8859_15" | "iso_8859_15" | "l9" | "latin9" => Self::Iso(rs::ISO_8859_15),
            "iso8859_16" | "iso_8859_16" | "iso_8859_16_2001" | "iso_ir_226" | "l10" | "latin10" => {
                Self::Iso(rs::ISO_8859_16)
            }
            "gbk" | "936" | "cp936" | "ms936" => Self::Multibyte(rs::GBK, "gbk"),
            "gb2312" | "chinese" | "csiso58gb231280" | "euc_cn" | "euccn" | "eucgb2312_cn" | "gb2312_1980"
            | "gb2312_80" | "iso_ir_58" => Self::Multibyte(rs::GBK, "gb2312"),
            "gb18030" | "gb18030_2000" => Self::Multibyte(rs::GB18030, "gb18030"),
            "big5" | "big5_tw" | "csbig5" => Self::Multibyte(rs::BIG5, "big5"),
            "big5hkscs" | "big5_hkscs" | "hkscs" => Self::Multibyte(rs::BIG5, "big5hkscs"),
            "euc_jp" | "eucjp" | "u_jis" | "ujis" => Self::Multibyte(rs::EUC_JP, "euc_jp"),
            "shift_jis" | "csshiftjis" | "s_jis" | "shiftjis" | "sjis" => Self::Multibyte(rs::SHIFT_JIS, "shift_jis"),
            "cp932" | "932" | "ms932" | "ms_kanji" | "mskanji" | "windows_31j" => {
                Self::Multibyte(rs::SHIFT_JIS, "cp932")
            }
            "euc_kr" | "euckr" | "korean" | "ks_c_5601" | "ks_c_5601_1987" | "ks_x_1001" | "ksc5601" | "ksx1001" => {
                Self::Multibyte(rs::EUC_KR, "euc_kr")
            }
            "cp949" | "949" | "ms949" | "uhc" => Self::Multibyte(rs::EUC_KR, "cp949"),
            "iso2022_jp" | "csiso2022jp" | "iso2022jp" | "iso_2022_jp" => {
                Self::Multibyte(rs::ISO_2022_JP, "iso2022_jp")
            }
            _ => return None,
        })
    }

    fn page(number: u16) -> Option<Self> {
        DECODING_TABLE_CP_MAP.get(&number).map(Self::Page)
    }

    /// Characters for bytes.
    pub(super) fn decode<'a>(&self, source: &'a [u8]) -> Result<Cow<'a, str>, Undecodable> {
        match self {
            Self::Utf8 => std::str::from_utf8(source)
                .map(Cow::Borrowed)
                .map_err(|error| Undecodable::new(error.valid_up_to(), Reason::Utf8)),
            Self::Ascii | Self::Latin1 | Self::Table(_) | Self::Iso(_) | Self::Page(_) if source.is_ascii() => {
                Ok(String::from_utf8_lossy(source))
            }
            Self::Ascii => {
                let at = source.iter().position(|byte| !byte.is_ascii()).unwrap_or(0);
                Err(Undecodable::new(at, Reason::Ascii))
            }
            Self::Latin1 => Ok(source.iter().map(|&byte| char::from(byte)).collect::<String>().into()),
            Self::Table(encoding) => by_table(encoding, false, source).map(Cow::Owned),
            Self::Iso(encoding) => by_table(encoding, true, source).map(Cow::Owned),
            Self::Page(table) => by_page(table, source).map(Cow::Owned),
            Self::Multibyte(encoding, name) => multibyte(encoding, name, source).map(Cow::Owned),
        }
    }
}

fn by_table(encoding: &'static Encoding, iso: bool, source: &[u8]) -> Result<String, Undecodable> {
    let (text, malformed) = encoding.decode_without_bom_handling(source);
    let characters = source.iter().zip(text.chars()).enumerate().map(|(at, (&byte, character))| match character {
        _ if iso && (0x80..0xa0).contains(&byte) => Ok(char::from(byte)),
        '\u{80}'..='\u{9f}' => Err(Undecodable::new(at, Reason::Table)),
        char::REPLACEMENT_CHARACTER if malformed => Err(Undecodable::new(at, Reason::Table)),
        _ => Ok(character),
    });
    characters.collect()
}

fn by_page(table: &TableType, source: &[u8]) -> Result<String, Undecodable> {
    let upper = |byte: u8| {
        let place = usize::from(byte & 0x7f);
        let character = match table {
            TableType::Complete(table) => Some(table[place]),
            TableType::Incomplete(table) => table[place],
        };
        character.filter(|character| !character.is_control())
    };
    let characters = source.iter().enumerate().map(|(at, &byte)| match byte {
        0..0x80 => Ok(char::from(byte)),
        _ => upper(byte).ok_or(Undecodable::new(at, Reason::Table)),
    });
    characters.collect()
}

fn multibyte(encoding: &'static Encoding, name: &'static str, source: &[u8]) -> Result<String, Undecodable> {
    // The crate knows these two only with the bytes that their successors added.
    if matches!(name, "euc_kr" | "gb2312")
        && let Some(at) = source.iter().position(|byte| matches!(byte, 0x80..=0xa0 | 0xff))
    {
        return Err(Undecodable::new(at, Reason::Multibyte(name)));
    }
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let room = decoder.max_utf8_buffer_length_without_replacement(source.len()).unwrap_or(source.len() * 3);
    let mut text = String::with_capacity(room);
    let (result, read) = decoder.decode_to_string_without_replacement(source, &mut text, true);
    match result {
        DecoderResult::InputEmpty => Ok(text),
        DecoderResult::Malformed(bad, behind) => {
            let at = read.saturating_sub(usize::from(bad) + usize::from(behind)).min(source.len() - 1);
            Err(Undecodable::new(at, Reason::Multibyte(name)))
        }
        DecoderResult::OutputFull => Err(Undecodable::new(read.min(source.len() - 1), Reason::Multibyte(name))),
    }
}
