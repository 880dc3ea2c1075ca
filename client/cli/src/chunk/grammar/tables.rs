//! Rules for the node kinds of each grammar.

use tree_sitter::Language;

/// A tree-sitter grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    C,
    /// C, or C++ if it is not valid C.
    CHeader,
    Cpp,
    Go,
    Java,
    JavaScript,
    Rust,
    TypeScript,
    Tsx,
}

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An item without nested items.
    Function,
    /// An item with members, if it has a body.
    Class,
    /// Not an item, but a prefix of the names inside.
    Scope,
    /// Transparent: its children belong to the enclosing scope.
    Group,
    /// Wraps one definition, in one of these fields or as a child. Its lines belong to the definition.
    Wrapper(&'static [&'static str]),
    /// Binds a name to a value, which may be a function.
    Binding,
    /// Several bindings.
    Bindings,
    /// A macro whose arguments may be items.
    Macro,
    /// Any other node.
    Other,
}

impl Grammar {
    /// Returns the grammar of a file in a language of `language::of_file`.
    pub fn of(language: &str, file_name: &str) -> Option<Self> {
        let extension = file_name.rsplit_once('.').map_or("", |(_, extension)| extension);
        Some(match (language, extension) {
            ("c", "h") => Self::CHeader,
            ("c", _) => Self::C,
            ("cpp" | "cuda", _) => Self::Cpp,
            ("go", _) => Self::Go,
            ("java", _) => Self::Java,
            ("javascript", _) => Self::JavaScript,
            ("rust", _) => Self::Rust,
            ("typescript", "tsx") => Self::Tsx,
            ("typescript", _) => Self::TypeScript,
            _ => return None,
        })
    }

    pub(super) fn language(self) -> Language {
        match self {
            Self::C | Self::CHeader => tree_sitter_c::LANGUAGE.into(),
            Self::Cpp => tree_sitter_cpp::LANGUAGE.into(),
            Self::Go => tree_sitter_go::LANGUAGE.into(),
            Self::Java => tree_sitter_java::LANGUAGE.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
        }
    }

    /// Separator in qualified names.
    pub(super) fn separator(self) -> &'static str {
        match self {
            Self::C | Self::CHeader | Self::Cpp | Self::Rust => "::",
            Self::Go | Self::Java | Self::JavaScript | Self::TypeScript | Self::Tsx => ".",
        }
    }

    pub(super) fn rule(self, kind: &str) -> Rule {
        // A syntax error may contain valid definitions.
        if kind == "ERROR" {
            return Rule::Group;
        }
        match self {
            Self::C | Self::CHeader | Self::Cpp => c(kind),
            Self::Go => go(kind),
            Self::Java => java(kind),
            Self::JavaScript | Self::TypeScript | Self::Tsx => javascript(kind),
            Self::Rust => rust(kind),
        }
    }

    /// Returns true if a node is a comment, attribute or decorator, which belongs to the following node.
    pub(super) fn is_attached(self, kind: &str) -> bool {
        match self {
            Self::Rust => matches!(kind, "line_comment" | "block_comment" | "attribute_item"),
            Self::Java => matches!(kind, "line_comment" | "block_comment"),
            Self::JavaScript | Self::TypeScript | Self::Tsx => matches!(kind, "comment" | "decorator"),
            Self::C | Self::CHeader | Self::Cpp | Self::Go => kind == "comment",
        }
    }

    /// Returns true if an attribute marks test code, as `#[cfg(test)]` and `#[tokio::test]` do.
    pub(super) fn is_test_attribute(self, text: &str) -> bool {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        self == Self::Rust
            && text.starts_with("#[")
            && !text.contains("not(")
            && !text.contains("any(")
            && words.any(|word| word == "test")
    }
}

/// Returns true if a JavaScript value is a function.
pub(super) fn is_function_value(kind: &str) -> bool {
    matches!(kind, "arrow_function" | "function_expression" | "function" | "generator_function")
}

fn c(kind: &str) -> Rule {
    match kind {
        "function_definition" | "preproc_function_def" | "enum_specifier" | "concept_definition" => Rule::Function,
        "struct_specifier" | "union_specifier" | "class_specifier" => Rule::Class,
        "namespace_definition" => Rule::Scope,
        "template_declaration" => Rule::Wrapper(&[]),
        "type_definition" => Rule::Wrapper(&["type"]),
        "preproc_if"
        | "preproc_ifdef"
        | "preproc_else"
        | "preproc_elif"
        | "preproc_elifdef"
        | "linkage_specification"
        | "declaration_list" => Rule::Group,
        _ => Rule::Other,
    }
}

fn go(kind: &str) -> Rule {
    match kind {
        "function_declaration" | "method_declaration" | "type_declaration" => Rule::Function,
        _ => Rule::Other,
    }
}

fn java(kind: &str) -> Rule {
    match kind {
        "method_declaration" | "constructor_declaration" | "compact_constructor_declaration" => Rule::Function,
        "class_declaration"
        | "interface_declaration"
        | "enum_declaration"
        | "record_declaration"
        | "annotation_type_declaration" => Rule::Class,
        "enum_body_declarations" => Rule::Group,
        _ => Rule::Other,
    }
}

fn javascript(kind: &str) -> Rule {
    match kind {
        "function_declaration"
        | "function_signature"
        | "generator_function_declaration"
        | "method_definition"
        | "interface_declaration"
        | "enum_declaration"
        | "type_alias_declaration" => Rule::Function,
        "class_declaration" | "abstract_class_declaration" => Rule::Class,
        "internal_module" | "module" => Rule::Scope,
        "export_statement" => Rule::Wrapper(&["declaration"]),
        "ambient_declaration" => Rule::Wrapper(&[]),
        "lexical_declaration" | "variable_declaration" | "expression_statement" => Rule::Bindings,
        "field_definition" | "public_field_definition" => Rule::Binding,
        _ => Rule::Other,
    }
}

fn rust(kind: &str) -> Rule {
    match kind {
        "function_item"
        | "function_signature_item"
        | "struct_item"
        | "enum_item"
        | "union_item"
        | "macro_definition" => Rule::Function,
        "trait_item" => Rule::Class,
        "impl_item" | "mod_item" | "foreign_mod_item" => Rule::Scope,
        "declaration_list" => Rule::Group,
        "expression_statement" => Rule::Wrapper(&[]),
        "macro_invocation" => Rule::Macro,
        _ => Rule::Other,
    }
}
