//! The tokens of a native snippet as Warp's compiler for the CPU sees it: comments are removed, and so are branches for CUDA.

/// The most bytes of a snippet.
const MAX_BYTES: usize = 1 << 14;

/// Macros that Warp's compiler for the CPU does not define.
const CUDA_MACROS: [&str; 2] = ["__CUDA_ARCH__", "__CUDACC__"];

/// Functions that order the threads of a block. A block has one thread.
pub(super) const SYNCHRONIZATION: [&str; 6] =
    ["WP_TILE_SYNC", "__syncthreads", "__syncwarp", "__threadfence", "__threadfence_block", "__threadfence_system"];

const SYMBOLS: [&str; 45] = [
    "<<=", ">>=", "++", "--", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=",
    "|=", "^=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "=", "?", ":", ";", ",", ".", "(", ")",
    "[", "]", "{", "}",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'s> {
    /// A name, with the namespaces before it, or a keyword.
    Word(&'s str),
    Number(&'s str),
    Symbol(&'static str),
}

impl<'s> Token<'s> {
    pub(super) fn text(self) -> &'s str {
        match self {
            Self::Word(text) | Self::Number(text) | Self::Symbol(text) => text,
        }
    }
}

/// The tokens of a text without comments and directives.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut found = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first.is_ascii_alphabetic() || first == '_' {
            let length = word_length(rest);
            (Token::Word(&rest[..length]), length)
        } else if first.is_ascii_digit() || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            let length = number_length(rest);
            (Token::Number(&rest[..length]), length)
        } else {
            let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
            let symbol = symbol.ok_or_else(|| format!("unsupported character `{}`", first.escape_debug()))?;
            (Token::Symbol(symbol), symbol.len())
        };
        found.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// The length of a name, with a namespace before it.
fn word_length(text: &str) -> usize {
    let length = |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let first = length(text);
    match text[first..].strip_prefix("::").map(length) {
        Some(second) if second > 0 => first + 2 + second,
        _ => first,
    }
}

fn number_length(text: &str) -> usize {
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let mut previous = ' ';
    let end = text.find(|c: char| {
        let is_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E') && !is_hexadecimal;
        previous = c;
        !(c.is_ascii_alphanumeric() || c == '.' || is_sign)
    });
    end.unwrap_or(text.len())
}

/// The text of a snippet that the CPU runs. An error if it has none, and CUDA runs more than barriers.
pub(super) fn cpu_text(snippet: &str) -> Result<String, String> {
    if snippet.len() > MAX_BYTES {
        return Err(format!("expected at most {MAX_BYTES} bytes, got {}", snippet.len()));
    }
    let mut text = String::new();
    let mut cuda = String::new();
    // For each open conditional, true if its current branch is compiled.
    let mut open: Vec<bool> = vec![];
    for line in without_comments(snippet).lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            let target = if open.iter().all(|is_compiled| *is_compiled) { &mut text } else { &mut cuda };
            target.push_str(line);
            target.push('\n');
            continue;
        };
        let words: Vec<_> =
            directive.split(|c: char| c.is_whitespace() || "()".contains(c)).filter(|word| !word.is_empty()).collect();
        match words[..] {
            ["ifdef", name] | ["if", "defined", name] if CUDA_MACROS.contains(&name) => open.push(false),
            ["ifndef", name] | ["if", "!defined", name] if CUDA_MACROS.contains(&name) => open.push(true),
            ["else"] if !open.is_empty() => *open.last_mut().expect("checked") ^= true,
            ["endif"] if !open.is_empty() => drop(open.pop()),
            ["pragma", ..] => {}
            _ => return Err(format!("unsupported directive `#{}`", directive.trim())),
        }
    }
    let computes = |word: &str| word.starts_with(|c: char| !c.is_ascii_digit()) && !SYNCHRONIZATION.contains(&word);
    let mut words = cuda.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    if text.trim().is_empty() && words.any(computes) {
        return Err("it computes in CUDA only".to_owned());
    }
    Ok(text)
}

/// A text in which a space takes the place of each comment; line breaks stay.
fn without_comments(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        result.push_str(&rest[..start]);
        result.push(' ');
        let is_block = rest[start..].starts_with("/*");
        let comment = &rest[start + 2..];
        rest = match (is_block, comment.find(if is_block { "*/" } else { "\n" })) {
            (true, Some(end)) => &comment[end + 2..],
            (false, Some(end)) => &comment[end..],
            (_, None) => "",
        };
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_c() {
        let text =
            |source| tokens(source).map(|all| all.iter().map(|token| token.text()).collect::<Vec<_>>().join(" "));
        assert_eq!(
            text("a>>=1u;b=wp::min(.5f,1e-3f)-c").expect("tokens"),
            "a >>= 1u ; b = wp::min ( .5f , 1e-3f ) - c"
        );
        assert_eq!(text("x = \"s\"").unwrap_err(), "unsupported character `\\\"`");
    }

    #[test]
    fn the_branch_of_the_cpu_is_taken() {
        let snippet =
            "/* a\n b */ int x = 1; // c\n#if defined(__CUDA_ARCH__)\nx = 2;\n#else\nx = 3;\n#endif\nreturn x;";
        let text: Vec<_> = cpu_text(snippet).expect("it is for CPUs").split_whitespace().map(str::to_owned).collect();
        assert_eq!(text.join(" "), "int x = 1; x = 3; return x;");
        assert_eq!(
            cpu_text("#ifdef __CUDA_ARCH__\n__syncwarp(0xffffffffu);\n#endif").expect("nothing is left").trim(),
            ""
        );
        assert_eq!(cpu_text("#ifdef __CUDA_ARCH__\nx = 1;\n#endif").unwrap_err(), "it computes in CUDA only");
        assert_eq!(cpu_text("#if __CUDA_ARCH__ > 700").unwrap_err(), "unsupported directive `#if __CUDA_ARCH__ > 700`");
    }
}
