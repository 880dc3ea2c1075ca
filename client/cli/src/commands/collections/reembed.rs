//! Embeds the texts of a collection again, into a new collection.

use accelerd_client::{
    Client, Collection, CollectionOptions, Ids, Payload, Points, Prompt, ScrollOptions, StoredPoints, Upsert, Value,
    proto,
};

use crate::{
    commands::prompts::CollectionPrompts,
    error::{CliError, Result},
};

/// Texts per call.
const BATCH: u32 = 256;

/// Creates `new_name` with the options of `name`, and copies its points with vectors of the model that is loaded now.
pub(super) async fn run(
    client: &Client,
    name: &str,
    new_name: &str,
    field: Option<String>,
    model: Option<String>,
    prompts: &CollectionPrompts,
) -> Result<proto::Collection> {
    let old = client.collection(name);
    let new = client.collection(new_name);
    let described = old.get().await?;
    let field = field.unwrap_or_else(|| described.text_field.clone());
    if field.is_empty() {
        return Err(CliError::Usage(format!("collection {name} has no full-text index: name the texts by --field")));
    }
    let options = options(&described, model, prompts)?;
    new.create(&options).await?;
    copy(&old, &new, &field).await?;
    Ok(new.get().await?)
}

/// The options of the new collection.
fn options(
    described: &proto::Collection,
    model: Option<String>,
    prompts: &CollectionPrompts,
) -> Result<CollectionOptions> {
    // Another model may have other dimensions and other prompts.
    let is_other = model.is_some();
    let dimensions = if is_other { 0 } else { described.dimensions };
    let prompt = |asked: Prompt, name: &str, text: Option<&str>| match (asked, text) {
        (Prompt::Default, Some(_)) if !is_other && !name.is_empty() => Prompt::Named(name.to_owned()),
        (Prompt::Default, Some(text)) if !is_other => Prompt::Text(text.to_owned()),
        (asked, _) => asked,
    };
    let model = model.unwrap_or_else(|| described.model.clone());
    if model.is_empty() {
        return Err(CliError::Usage(format!("collection {} has no model: name one by --model", described.name)));
    }
    Ok(CollectionOptions {
        dimensions,
        metric: described.metric(),
        storage: described.storage(),
        model,
        document_prompt: prompt(
            prompts.document(),
            &described.document_prompt_name,
            described.document_prompt.as_deref(),
        ),
        query_prompt: prompt(prompts.query(), &described.query_prompt_name, described.query_prompt.as_deref()),
        text_field: described.text_field.clone(),
        durable: Some(described.durable),
    })
}

async fn copy(old: &Collection, new: &Collection, field: &str) -> Result {
    let options = ScrollOptions { limit: BATCH, ..Default::default() };
    let mut after = None;
    loop {
        let page = old.scroll(after.as_ref(), &options).await?;
        if !page.points.ids.is_empty() {
            new.upsert(with_texts(page.points, field)?).await?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// The points with the texts of a field instead of vectors.
fn with_texts(points: StoredPoints, field: &str) -> Result<Upsert> {
    let StoredPoints { ids, payloads, .. } = points;
    let text = |(index, payload): (usize, &Payload)| match payload.get(field).and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(CliError::Usage(format!("point {} has no text in the field {field:?}", id(&ids, index)))),
    };
    let texts = payloads.iter().enumerate().map(text).collect::<Result<_>>()?;
    Ok(Upsert { ids, points: Points::Texts(texts), payloads, prompt: Prompt::Default })
}

fn id(ids: &Ids, index: usize) -> String {
    ids.get(index).map_or_else(String::new, |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_keep_their_ids_and_payloads_and_a_point_without_a_text_is_named() {
        let payload = |value: Value| Payload::from([("text".to_owned(), value)]);
        let stored = |values: Vec<Value>| StoredPoints {
            ids: Ids::from(7..7 + values.len() as u64),
            payloads: values.into_iter().map(payload).collect(),
            vectors: None,
        };
        let upsert = with_texts(stored(vec!["a".into(), "b".into()]), "text").unwrap();
        assert_eq!(upsert.points, Points::Texts(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((upsert.ids, upsert.payloads.len()), (Ids::from(7..9), 2));
        let refused = with_texts(stored(vec!["a".into(), 1_i64.into()]), "text").unwrap_err().to_string();
        assert!(refused.contains("point 8 has no text"), "{refused}");
    }

    #[test]
    fn the_new_collection_has_the_options_of_the_old_one() {
        let described = proto::Collection { model: "m".into(), dimensions: 64, durable: true, ..Default::default() };
        let options = |described: &proto::Collection, model: Option<String>| {
            options(described, model, &CollectionPrompts::default())
        };
        let same = options(&described, None).unwrap();
        assert_eq!((same.model.as_str(), same.dimensions, same.durable), ("m", 64, Some(true)));
        let other = options(&described, Some("n".into())).unwrap();
        assert_eq!((other.model.as_str(), other.dimensions), ("n", 0));
        assert!(options(&proto::Collection::default(), None).is_err());
        assert_eq!((same.document_prompt, same.query_prompt), (Prompt::Default, Prompt::Default));
        let prompted = proto::Collection {
            document_prompt: Some("passage: ".into()),
            document_prompt_name: "passage".into(),
            query_prompt: Some("find ".into()),
            ..described
        };
        let same = options(&prompted, None).unwrap();
        assert_eq!(same.document_prompt, Prompt::Named("passage".into()));
        assert_eq!(same.query_prompt, Prompt::Text("find ".into()));
        let other = options(&prompted, Some("n".into())).unwrap();
        assert_eq!((other.document_prompt, other.query_prompt), (Prompt::Default, Prompt::Default));
    }
}
