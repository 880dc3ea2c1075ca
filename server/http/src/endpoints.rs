//! The endpoints that are no methods of the protocol, with what the routes and the description of the port need of them.

use axum::routing::{MethodRouter, get, post};

use crate::{
    api::{oip::http_routes as oip, openai, rerank, tei},
    exchange::{ErrorForm, Route, serve},
    shared::Shared,
};

/// The endpoints of an API.
pub(crate) struct Api {
    pub(crate) name: &'static str,
    pub(crate) error: ErrorForm,
    pub(crate) endpoints: &'static [Endpoint],
}

/// One endpoint.
pub(crate) struct Endpoint {
    pub(crate) verb: Verb,
    /// The path in axum's notation.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Fields of the request and their kinds. The names of required ones end with `!`.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    route: Route,
}

/// The method of HTTP.
#[derive(Clone, Copy)]
pub(crate) enum Verb {
    Get,
    Post,
}

impl Verb {
    /// The name in the description.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
        }
    }
}

impl Endpoint {
    const fn get(path: &'static str, summary: &'static str, route: Route) -> Self {
        Self { verb: Verb::Get, path, summary, fields: &[], route }
    }

    const fn post(
        path: &'static str,
        summary: &'static str,
        route: Route,
        fields: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { verb: Verb::Post, path, summary, fields, route }
    }

    /// Serves requests of the verb. Failures are in a form.
    pub(crate) fn method_router(&self, error: ErrorForm) -> MethodRouter<Shared> {
        let route = self.route;
        match self.verb {
            Verb::Get => get(move |shared, request| serve(error, route, shared, request)),
            Verb::Post => post(move |shared, request| serve(error, route, shared, request)),
        }
    }
}

const MODEL: (&str, &str) = ("model", "string");
const EMBEDDINGS: &[(&str, &str)] =
    &[("input!", "texts"), MODEL, ("encoding_format", "format"), ("dimensions", "integer")];

/// All endpoints.
pub(crate) const APIS: [Api; 5] = [
    Api {
        name: "OpenAI",
        error: openai::error,
        endpoints: &[
            Endpoint::post("/v1/embeddings", "Embeds texts.", openai::embeddings, EMBEDDINGS),
            Endpoint::post("/embeddings", "As /v1/embeddings.", openai::embeddings, EMBEDDINGS),
            Endpoint::get("/v1/models", "Lists the loaded models.", openai::all_models),
            Endpoint::get("/v1/models/{*name}", "Shows a loaded model.", openai::model),
        ],
    },
    Api {
        name: "TEI",
        error: tei::error,
        endpoints: &[
            Endpoint::post(
                "/",
                "Embeds, compares or ranks, by the fields of the request.",
                tei::predict,
                &[("inputs", "texts"), ("query", "string"), ("texts", "strings")],
            ),
            Endpoint::post(
                "/embed",
                "Embeds texts; one vector each.",
                tei::embed_inputs,
                &[
                    ("inputs!", "texts"),
                    ("normalize", "boolean"),
                    ("truncate", "boolean"),
                    ("prompt_name", "string"),
                    ("dimensions", "integer"),
                    MODEL,
                ],
            ),
            Endpoint::post(
                "/embed_all",
                "Embeds texts; one vector for each token.",
                tei::embed_all,
                &[("inputs!", "texts"), MODEL],
            ),
            Endpoint::post(
                "/rerank",
                "Ranks texts by their relevance to a query.",
                tei::rerank,
                &[
                    ("query!", "string"),
                    ("texts!", "strings"),
                    ("raw_scores", "boolean"),
                    ("return_text", "boolean"),
                    MODEL,
                ],
            ),
            Endpoint::post(
                "/similarity",
                "Compares a sentence with others.",
                tei::similarity,
                &[("inputs!", "object"), ("parameters", "object"), MODEL],
            ),
            Endpoint::post(
                "/tokenize",
                "Converts texts to tokens.",
                tei::tokenize,
                &[("inputs!", "texts"), ("add_special_tokens", "boolean"), MODEL],
            ),
            Endpoint::get("/info", "Shows the default model.", tei::info),
            Endpoint::get("/health", "Says whether the daemon serves.", tei::health),
        ],
    },
    Api {
        name: "Cohere",
        error: rerank::error,
        endpoints: &[Endpoint::post(
            "/v2/rerank",
            "Ranks documents by their relevance to a query.",
            rerank::cohere,
            &[("query!", "string"), ("documents!", "documents"), ("top_n", "integer"), MODEL],
        )],
    },
    Api {
        name: "Jina",
        error: rerank::error,
        endpoints: &[Endpoint::post(
            "/v1/rerank",
            "Ranks documents by their relevance to a query.",
            rerank::jina,
            &[
                ("query!", "string"),
                ("documents!", "documents"),
                ("top_n", "integer"),
                ("return_documents", "boolean"),
                MODEL,
            ],
        )],
    },
    Api {
        name: "Open Inference Protocol",
        error: oip::error,
        endpoints: &[
            Endpoint::get("/v2", "Describes the server.", oip::server),
            Endpoint::get("/v2/health/live", "Says that the daemon runs.", oip::live),
            Endpoint::get("/v2/health/ready", "Says whether the daemon serves.", oip::ready),
            Endpoint::post("/v2/repository/index", "Lists the models.", oip::index, &[]),
            Endpoint::get(
                "/v2/models/{*model}",
                "Describes a model, or says with /ready that it is loaded.",
                oip::model,
            ),
            Endpoint::post(
                "/v2/models/{*model}",
                "Infers, with /infer at the end of the path.",
                oip::infer,
                &[("inputs!", "objects"), ("outputs", "objects"), ("parameters", "object"), ("id", "string")],
            ),
        ],
    },
];
