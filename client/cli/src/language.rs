//! Detects the language of a file by its name.

/// Languages with their extensions and file names.
const LANGUAGES: [(&str, &[&str]); 44] = [
    ("assembly", &["asm", "s"]),
    ("bash", &["sh", "bash", "zsh"]),
    ("c", &["c", "h"]),
    ("cmake", &["cmake", "CMakeLists.txt"]),
    ("cpp", &["cpp", "cc", "cxx", "hpp", "hh", "hxx"]),
    ("csharp", &["cs"]),
    ("css", &["css", "scss", "less"]),
    ("cuda", &["cu", "cuh"]),
    ("dart", &["dart"]),
    ("dockerfile", &["Dockerfile", "Containerfile"]),
    ("elixir", &["ex", "exs"]),
    ("erlang", &["erl", "hrl"]),
    ("go", &["go"]),
    ("graphql", &["graphql"]),
    ("haskell", &["hs"]),
    ("html", &["html", "htm"]),
    ("java", &["java"]),
    ("javascript", &["js", "mjs", "cjs", "jsx"]),
    ("json", &["json"]),
    ("julia", &["jl"]),
    ("just", &["justfile"]),
    ("kotlin", &["kt", "kts"]),
    ("lua", &["lua"]),
    ("make", &["mk", "Makefile"]),
    ("markdown", &["md", "markdown"]),
    ("nix", &["nix"]),
    ("ocaml", &["ml", "mli"]),
    ("perl", &["pl", "pm"]),
    ("php", &["php"]),
    ("protobuf", &["proto"]),
    ("python", &["py", "pyi", "pyx"]),
    ("r", &["r", "R"]),
    ("rst", &["rst"]),
    ("ruby", &["rb"]),
    ("rust", &["rs"]),
    ("scala", &["scala"]),
    ("sql", &["sql"]),
    ("swift", &["swift"]),
    ("terraform", &["tf"]),
    ("text", &["txt"]),
    ("toml", &["toml"]),
    ("typescript", &["ts", "mts", "cts", "tsx"]),
    ("yaml", &["yaml", "yml"]),
    ("zig", &["zig"]),
];

/// Returns the language of a file name: the known language, else the extension, else `text`.
pub fn of_file(name: &str) -> String {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let known = named(name).or_else(|| extension.and_then(named));
    known.or(extension.filter(|e| !e.is_empty())).unwrap_or("text").to_owned()
}

/// Returns the language that a user names as `py`, `rs` or `python`.
pub fn of_word(word: &str) -> Result<&'static str, String> {
    let word = word.trim_start_matches('.');
    let by_name = LANGUAGES.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(word));
    let lower = word.to_ascii_lowercase();
    by_name.or_else(|| named(word)).or_else(|| named(&lower)).ok_or_else(|| {
        let names: Vec<_> = LANGUAGES.iter().map(|(name, _)| *name).collect();
        format!("unknown language; expected an extension such as `py`, or one of {}", names.join(", "))
    })
}

fn named(extension: &str) -> Option<&'static str> {
    LANGUAGES.iter().find(|(_, extensions)| extensions.contains(&extension)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_arguments_name_the_same_languages() {
        for (file, word, language) in [
            ("argparse.py", "py", "python"),
            ("lib.rs", "Rust", "rust"),
            ("Dockerfile", "dockerfile", "dockerfile"),
            ("a.tsx", ".ts", "typescript"),
        ] {
            assert_eq!(of_file(file), language);
            assert_eq!(of_word(word), Ok(language));
        }
        assert_eq!((of_file("LICENSE"), of_file("notes.quux")), ("text".into(), "quux".into()));
    }

    #[test]
    fn an_unknown_language_is_rejected_with_a_list_of_known_ones() {
        let refused = of_word("quux").unwrap_err();
        assert!(refused.contains("python, r, rst") && refused.contains("zig"), "{refused}");
    }
}
