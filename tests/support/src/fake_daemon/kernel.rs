//! Translations: a kernel named by the first name or `f`, whose only file has the source, and a diagnostic for each further name.

use accelerd_proto::v1::{self as proto, kernel_service_server::KernelService};
use tonic::{Request, Response, Status};

use super::FakeDaemon;

#[tonic::async_trait]
impl KernelService for FakeDaemon {
    async fn translate(
        &self,
        request: Request<proto::TranslateRequest>,
    ) -> Result<Response<proto::TranslateResponse>, Status> {
        let proto::TranslateRequest { source, constants, mut names, targets, .. } = request.into_inner();
        let others = names.split_off(names.len().min(1));
        let name = names.pop().unwrap_or_else(|| "f".to_owned());
        let text = format!("{source}{constants:?}{targets:?}");
        let component = proto::KernelComponent { dtype: proto::Dtype::F32.into(), ..Default::default() };
        let param = |name: &str, dims| proto::KernelParam {
            name: name.to_owned(),
            dims,
            components: vec![component.clone()],
            element_size_bytes: 4,
        };
        let kernel = proto::TranslatedKernel {
            name: name.clone(),
            grid_dims: 1,
            params: vec![param("a", 0), param("x", 2)],
            bit_exact: true,
            files: vec![proto::KernelFile { name: format!("{name}.cu"), content: text.into_bytes().into() }],
        };
        let diagnostic = |kernel: String| proto::KernelDiagnostic {
            kernel,
            code: "unsupported_statement".to_owned(),
            message: "expected less".to_owned(),
            line: 3,
            column: 4,
        };
        let diagnostics = others.into_iter().map(diagnostic).collect();
        Ok(Response::new(proto::TranslateResponse { kernels: vec![kernel], diagnostics }))
    }
}
