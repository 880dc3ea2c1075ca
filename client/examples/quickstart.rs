//! Embeds a few texts, keeps them in a collection and searches it: `cargo run -p accelerd-client --example quickstart`.
#![allow(clippy::print_stdout, reason = "it is there to show something")]

use accelerd_client::{Client, CollectionOptions, DEFAULT_URL, Error, Payload, SearchOptions, SimilarOptions};

const SNIPPETS: [(&str, &str); 4] = [
    ("dates.py", "def parse_date(text): return datetime.strptime(text, '%Y-%m-%d')"),
    ("net.py", "def serve(port): sock = socket.socket(); sock.bind(('', port)); sock.listen()"),
    ("pack.py", "def compress(path): return gzip.compress(path.read_bytes())"),
    ("cli.py", "def arguments(): return argparse.ArgumentParser().parse_args()"),
];

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = Client::connect(std::env::var("ACCELERD_SERVER").unwrap_or(DEFAULT_URL.to_owned())).await?;

    let embeddings = client.embed(SNIPPETS.map(|(_, code)| code)).await?;
    println!("{:?} by {}", embeddings.vectors, embeddings.model);

    let query = client.embed(["wait for connections"]).await?;
    let similar = client.find_similar(query.vectors, &embeddings.vectors, &SimilarOptions::cosine(1)).await?;
    println!("inline: row {} scores {:.3}", similar.indices.as_slice()[0], similar.scores.as_slice()[0]);

    let snippets = client.collection("quickstart");
    snippets.create(&CollectionOptions { model: "builtin".into(), ..Default::default() }).await?;
    let payloads = SNIPPETS.map(|(path, _)| Payload::from([("path".to_owned(), path.into())]));
    snippets.upsert_texts(0..4, SNIPPETS.map(|(_, code)| code), payloads.to_vec()).await?;
    let queries = ["read a day and a month", "make a file smaller"];
    let found = snippets.search_text(queries, &SearchOptions::limit(1)).await?;
    for (query, hits) in queries.iter().zip(&found.results) {
        let path = hits.first().and_then(|hit| hit.payload["path"].as_str());
        println!("{query}: {}", path.unwrap_or("nothing"));
    }
    snippets.delete().await
}
