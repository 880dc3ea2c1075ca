//! Prompts of texts: of a collection to create, and of a search.

use accelerd_client::{Prompt, proto};
use clap::Args;

use crate::error::{CliError, Result};

/// Prompts of a collection to create.
#[derive(Clone, Debug, Default, Args)]
pub struct CollectionPrompts {
    /// Name of the model's prompt for the texts of a new collection [default: document, passage, corpus or search_document].
    #[arg(long, value_name = "NAME")]
    document_prompt_name: Option<String>,
    /// This prompt for the texts of a new collection, such as `passage: `; an empty one is none.
    #[arg(long, value_name = "TEXT", conflicts_with = "document_prompt_name")]
    document_prompt: Option<String>,
    /// Name of the model's prompt for queries in a new collection [default: query or search_query].
    #[arg(long, value_name = "NAME")]
    query_prompt_name: Option<String>,
    /// This prompt for queries in a new collection, such as `query: `; an empty one is none.
    #[arg(long, value_name = "TEXT", conflicts_with = "query_prompt_name")]
    query_prompt: Option<String>,
}

/// The prompt of a search.
#[derive(Clone, Debug, Default, Args)]
pub struct QueryPrompt {
    /// Name of the model's prompt for the queries, instead of the collection's prompt.
    #[arg(long, value_name = "NAME")]
    prompt_name: Option<String>,
    /// This prompt for the queries, instead of the collection's; an empty one is none.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_name")]
    prompt: Option<String>,
}

impl CollectionPrompts {
    /// The prompt of documents.
    pub fn document(&self) -> Prompt {
        chosen(self.document_prompt_name.as_ref(), self.document_prompt.as_ref())
    }

    /// The prompt of queries.
    pub fn query(&self) -> Prompt {
        chosen(self.query_prompt_name.as_ref(), self.query_prompt.as_ref())
    }

    /// Checks that the requested prompts are those of a collection that exists.
    pub fn check(&self, collection: &proto::Collection) -> Result {
        let document = Stored { name: &collection.document_prompt_name, text: collection.document_prompt.as_deref() };
        let query = Stored { name: &collection.query_prompt_name, text: collection.query_prompt.as_deref() };
        for (role, requested, stored) in [("document", self.document(), document), ("query", self.query(), query)] {
            let (is_same, requested) = match &requested {
                Prompt::Default => continue,
                Prompt::Named(name) => (name == stored.name, name),
                Prompt::Text(text) => (text == stored.text.unwrap_or_default(), text),
            };
            if !is_same {
                return Err(CliError::Usage(format!(
                    "collection {} has the {role} prompt {}, not {requested:?}: omit --{role}-prompt, or choose another \
                     collection",
                    collection.name,
                    stored.shown(),
                )));
            }
        }
        Ok(())
    }
}

impl QueryPrompt {
    /// The prompt.
    pub fn prompt(&self) -> Prompt {
        chosen(self.prompt_name.as_ref(), self.prompt.as_ref())
    }
}

fn chosen(name: Option<&String>, text: Option<&String>) -> Prompt {
    match (name, text) {
        (Some(name), _) => Prompt::Named(name.clone()),
        (None, Some(text)) => Prompt::Text(text.clone()),
        (None, None) => Prompt::Default,
    }
}

/// A prompt of a collection.
struct Stored<'a> {
    name: &'a str,
    text: Option<&'a str>,
}

impl Stored<'_> {
    fn shown(&self) -> String {
        match (self.name, self.text) {
            ("", None | Some("")) => "none".to_owned(),
            ("", Some(text)) => format!("{text:?}"),
            (name, _) => format!("{name:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection() -> proto::Collection {
        proto::Collection {
            name: "c".into(),
            document_prompt: Some("passage: ".into()),
            document_prompt_name: "passage".into(),
            query_prompt: Some("find ".into()),
            ..Default::default()
        }
    }

    fn refused(prompts: &CollectionPrompts, collection: &proto::Collection) -> Option<String> {
        prompts.check(collection).err().map(|error| error.to_string())
    }

    #[test]
    fn prompts_of_a_collection_that_exists_must_be_its_own() {
        let document_name =
            |name: &str| CollectionPrompts { document_prompt_name: Some(name.into()), ..Default::default() };
        let query = |text: &str| CollectionPrompts { query_prompt: Some(text.into()), ..Default::default() };
        let c = collection();
        assert_eq!(refused(&CollectionPrompts::default(), &c), None);
        assert_eq!(refused(&document_name("passage"), &c), None);
        assert_eq!(refused(&query("find "), &c), None);
        let other = refused(&document_name("title"), &c).expect("it has another");
        assert!(other.starts_with("collection c has the document prompt \"passage\", not \"title\": "), "{other}");
        let other = refused(&query(""), &c).expect("it has one");
        assert!(
            other.starts_with("collection c has the query prompt \"find \", not \"\": omit --query-prompt"),
            "{other}"
        );
        let without = proto::Collection::default();
        assert_eq!(refused(&query(""), &without), None);
        assert!(refused(&query("find "), &without).is_some_and(|error| error.contains("query prompt none")));
    }

    #[test]
    fn a_prompt_is_a_name_or_a_text_and_an_empty_text_is_none() {
        let prompt = |name: Option<&str>, text: Option<&str>| {
            QueryPrompt { prompt_name: name.map(str::to_owned), prompt: text.map(str::to_owned) }.prompt()
        };
        assert_eq!(prompt(None, None), Prompt::Default);
        assert_eq!(prompt(Some("query"), None), Prompt::Named("query".into()));
        assert_eq!(prompt(None, Some("")), Prompt::none());
    }
}
