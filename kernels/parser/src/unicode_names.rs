//! Characters by name, as `\N{...}` and `unicodedata.lookup` know them.

/// The character with a name or an alias; case matters only for algorithmic names.
pub(crate) fn lookup(name: &[u8]) -> Option<char> {
    const IDEOGRAPH: &str = "CJK UNIFIED IDEOGRAPH-";
    // `unicode_names2` reads the byte before a hyphen, and no name starts with one.
    let name = std::str::from_utf8(name).ok().filter(|name| name.is_ascii() && !name.starts_with('-'))?;
    if let Some(code) = name.strip_prefix(IDEOGRAPH) {
        let digits = matches!(code.len(), 4 | 5) && code.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
        let character = u32::from_str_radix(code, 16).ok().filter(|_| digits).and_then(char::from_u32)?;
        return unicode_names2::name(character)?.to_string().starts_with(IDEOGRAPH).then_some(character);
    }
    let character = unicode_names2::character(name)?;
    let Some(known) = unicode_names2::name(character).map(|known| known.to_string()) else {
        return is_strict(name).then_some(character);
    };
    if known.starts_with("HANGUL SYLLABLE ") {
        return (known == name).then_some(character);
    }
    if known.starts_with(IDEOGRAPH) || known.starts_with("TANGUT IDEOGRAPH-") {
        return None;
    }
    // Otherwise it is an alias, which the crate matches loosely.
    let alias = || is_strict(name) && squeezed(name) != squeezed(&known);
    (known.eq_ignore_ascii_case(name) || alias()).then_some(character)
}

/// A name has single spaces and no underscores.
fn is_strict(name: &str) -> bool {
    !name.contains('_') && name.split(' ').all(|word| !word.is_empty())
}

fn squeezed(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_uppercase()).collect()
}
