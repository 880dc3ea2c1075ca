//! Arrays of token ids in requests of OpenAI's API. There they mean the encoding `cl100k_base`, which is no encoder's: clients such as
//! LangChain split long texts by it, and send the ids.

use tiktoken_rs::{CoreBPE, cl100k_base_singleton};

use super::vectors::Inputs;
use crate::{failure::Failure, shared::TokenArrays};

/// Replaces arrays of token ids by texts, unless they are those of the model.
pub(crate) fn decode(inputs: Inputs, meaning: TokenArrays) -> Result<Inputs, Failure> {
    let lists = match inputs {
        texts @ (Inputs::Text(_) | Inputs::Texts(_)) => return Ok(texts),
        Inputs::Tokens(list) => vec![list],
        Inputs::TokenLists(lists) => lists,
    };
    match meaning {
        TokenArrays::Model => Ok(Inputs::TokenLists(lists)),
        TokenArrays::Refuse => Err(Failure::invalid(
            "input",
            "expected texts, got arrays of token ids, which http.token_arrays refuses; OpenAIEmbeddings of LangChain sends texts \
             with check_embedding_ctx_length=False",
        )),
        TokenArrays::Cl100kBase => {
            let encoding = cl100k_base_singleton();
            lists.iter().map(|ids| text(encoding, ids)).collect::<Result<_, _>>().map(Inputs::Texts)
        }
    }
}

/// The text of token ids. A part of a longer text may begin or end within a character.
fn text(encoding: &CoreBPE, ids: &[u32]) -> Result<String, Failure> {
    let bytes = encoding.decode_bytes(ids).map_err(|_| {
        Failure::invalid("input", "expected token ids of cl100k_base, got another; see the setting http.token_arrays")
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_ids_are_those_of_cl100k_base() {
        let decoded =
            decode(Inputs::TokenLists(vec![vec![15339, 1917], vec![755, 1328, 471]]), TokenArrays::Cl100kBase);
        assert_eq!(decoded.expect("texts"), Inputs::Texts(vec!["hello world".to_owned(), "def __ return".to_owned()]));
    }

    #[test]
    fn token_ids_may_be_those_of_the_model_or_refused() {
        let ids = Inputs::Tokens(vec![1, 2]);
        let of_model = decode(ids.clone(), TokenArrays::Model).expect("they stay");
        assert_eq!(of_model, Inputs::TokenLists(vec![vec![1, 2]]));
        let refusal = decode(ids, TokenArrays::Refuse).expect_err("refused");
        assert!(refusal.message.contains("check_embedding_ctx_length"), "{}", refusal.message);
        let unknown = decode(Inputs::Tokens(vec![4_000_000]), TokenArrays::Cl100kBase).expect_err("no such id");
        assert!(unknown.message.contains("cl100k_base"), "{}", unknown.message);
        let text = Inputs::Text("a".to_owned());
        assert_eq!(decode(text.clone(), TokenArrays::Refuse).expect("texts stay"), text);
    }
}
