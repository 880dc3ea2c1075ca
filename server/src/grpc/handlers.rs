//! A trait for each service of the protocol, with a function for each of its methods.

use std::future::Future;

use accelerd_engine::Context;
use accelerd_proto::v1 as pb;
use tonic::{Request, Response, Status};

use super::call::{ChargedRequests, Requests, Responses};
use crate::auth::caller::Caller;

macro_rules! handler {
    ($name:ident unary $size:ident $request:ident $response:ident) => {
        fn $name(
            &self,
            request: Request<pb::$request>,
        ) -> impl Future<Output = Result<Response<pb::$response>, Status>> + Send;
    };
    ($name:ident server_stream small $request:ident $response:ident) => {
        fn $name(
            &self,
            request: Request<pb::$request>,
        ) -> impl Future<Output = Result<Response<Responses<pb::$response>>, Status>> + Send;
    };
    ($name:ident client_stream $size:ident $request:ident $response:ident) => {
        fn $name(
            &self,
            caller: Caller,
            context: Context,
            requests: ChargedRequests<pb::$request>,
        ) -> impl Future<Output = Result<Response<pb::$response>, Status>> + Send;
    };
    ($name:ident $streaming:ident $size:ident $request:ident $response:ident) => {
        fn $name(&self, caller: Caller, context: Context, requests: Requests<pb::$request>)
        -> Responses<pb::$response>;
    };
}

macro_rules! traits {
    ($($service:ident $field:ident {
        $($id:ident $name:ident $cardinality:ident $size:ident $request:ident $response:ident;)*
    })*) => {
        $(pub(super) trait $service {
            $(handler! { $name $cardinality $size $request $response })*
        })*
    };
}

accelerd_proto::with_all_services!(traits);
