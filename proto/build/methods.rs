//! Generates the table of methods from the options in the .proto files. A method without an option is an error.

use std::fmt::Write;

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MethodDescriptor, ReflectMessage, ServiceDescriptor, Value,
};

const PACKAGE: &str = "accelerd.v1";

/// A method as the generated code names it.
struct Method {
    /// Variant of `MethodId`.
    id: String,
    /// Name of its constant.
    constant: String,
    /// Name of the function that handles it.
    function: String,
    path: String,
    service: String,
    name: String,
    /// `unary`, `client_stream`, `server_stream` or `bidi_stream`.
    cardinality: &'static str,
    request: String,
    response: String,
    /// Variants of the enums in src/methods.rs and in prost-types.
    role: String,
    size_class: String,
    idempotency: String,
}

/// Returns the text of the table and of what follows from it.
pub fn generate(pool: &DescriptorPool) -> Result<String, String> {
    let mut services: Vec<_> = pool.services().filter(|service| service.package_name() == PACKAGE).collect();
    services.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    let mut described = vec![];
    for service in &services {
        let methods = service.methods().map(|method| describe(pool, service, &method));
        let mut methods = methods.collect::<Result<Vec<_>, _>>()?;
        methods.sort_by(|a, b| a.path.cmp(&b.path));
        described.push((service, methods));
    }
    let all: Vec<_> = described.iter().flat_map(|(_, methods)| methods).collect();
    let mut text = String::new();
    write_table(&mut text, &all);
    let names: Vec<_> = services.iter().map(|service| format!("{}::NAME", snake_case(service.name()))).collect();
    line(&mut text, "/// Full names of all services.");
    line(&mut text, &format!("pub static SERVICES: [&str; {}] = [{}];", names.len(), names.join(", ")));
    for (service, methods) in &described {
        write_constants(&mut text, service, methods);
    }
    write_macro(&mut text, described.iter().map(|(service, methods)| (service.name(), methods.as_slice())));
    Ok(text)
}

fn describe(pool: &DescriptorPool, service: &ServiceDescriptor, method: &MethodDescriptor) -> Result<Method, String> {
    let (name, options) = (method.name(), method.options());
    let missing = |option: &str| format!("{}: expected the option {option}, got none", method.full_name());
    let extension = |option: &str| {
        let value = value_of_extension(pool, &options, option).filter(|value| !value.ends_with("_UNSPECIFIED"));
        value.ok_or_else(|| missing(option))
    };
    let (role, size_class) = (extension("required_role")?, extension("size_class")?);
    let idempotency = idempotency_level(&options).ok_or_else(|| missing("idempotency_level"))?;
    let cardinality = match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => "unary",
        (true, false) => "client_stream",
        (false, true) => "server_stream",
        (true, true) => "bidi_stream",
    };
    if method.is_client_streaming() && size_class == "SIZE_CLASS_SMALL" {
        return Err(format!(
            "{}: expected another size_class of a stream of requests, got {size_class}",
            method.full_name()
        ));
    }
    let message = |full_name: &str| {
        let name = full_name.strip_prefix(PACKAGE).and_then(|name| name.strip_prefix('.'));
        name.map(ToOwned::to_owned).ok_or_else(|| format!("{full_name}: expected a message of {PACKAGE}"))
    };
    let service_name = service.name();
    let stem = service_name.strip_suffix("Service").unwrap_or(service_name);
    Ok(Method {
        id: format!("{stem}{name}"),
        constant: snake_case(name).to_uppercase(),
        function: snake_case(name),
        path: format!("/{}/{name}", service.full_name()),
        service: service.full_name().to_owned(),
        name: name.to_owned(),
        cardinality,
        request: message(method.input().full_name())?,
        response: message(method.output().full_name())?,
        role: camel_case(role.trim_start_matches("ROLE_")),
        size_class: camel_case(size_class.trim_start_matches("SIZE_CLASS_")),
        idempotency: camel_case(&idempotency),
    })
}

/// The name of the enum value of an extension of the options; `None` without one.
fn value_of_extension(pool: &DescriptorPool, options: &DynamicMessage, name: &str) -> Option<String> {
    let extension = pool.get_extension_by_name(&format!("{PACKAGE}.{name}"))?;
    if !options.has_extension(&extension) {
        return None;
    }
    enum_value_name(&extension.kind(), &options.get_extension(&extension))
}

/// The name of the level; `None` if the options do not set one.
fn idempotency_level(options: &DynamicMessage) -> Option<String> {
    let field = options.descriptor().get_field_by_name("idempotency_level")?;
    if !options.has_field(&field) {
        return None;
    }
    enum_value_name(&field.kind(), &options.get_field(&field))
}

fn enum_value_name(kind: &Kind, value: &Value) -> Option<String> {
    let (Kind::Enum(values), Value::EnumNumber(number)) = (kind, value) else { return None };
    values.get_value(*number).map(|value| value.name().to_owned())
}

fn write_table(text: &mut String, methods: &[&Method]) {
    line(text, "/// Identifies a method: its service without the suffix `Service`, and its name.");
    line(text, "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]");
    line(text, "pub enum MethodId {");
    for Method { id, path, .. } in methods {
        line(text, &format!("    /// `{path}`"));
        line(text, &format!("    {id},"));
    }
    line(text, "}");
    line(text, "/// All methods, in the order of their ids.");
    line(text, &format!("pub static METHODS: [Method; {}] = [", methods.len()));
    for method in methods {
        let Method { id, path, service, name, cardinality, role, size_class, idempotency, .. } = method;
        let client_streaming = matches!(*cardinality, "client_stream" | "bidi_stream");
        let server_streaming = matches!(*cardinality, "server_stream" | "bidi_stream");
        line(
            text,
            &format!(
                "    Method {{ id: MethodId::{id}, path: {path:?}, service: {service:?}, name: {name:?}, \
                 client_streaming: {client_streaming}, server_streaming: {server_streaming}, role: Role::{role}, \
                 idempotency: IdempotencyLevel::{idempotency}, size_class: SizeClass::{size_class} }},"
            ),
        );
    }
    line(text, "];");
}

/// The module of a service, with a typed constant for each method.
fn write_constants(text: &mut String, service: &ServiceDescriptor, methods: &[Method]) {
    line(text, &format!("/// Methods of `{}`.", service.full_name()));
    line(text, &format!("pub mod {} {{", snake_case(service.name())));
    line(text, "    use super::{METHODS, MethodId, Rpc};");
    line(text, "    use crate::v1;");
    line(text, "    /// Full name of the service.");
    line(text, &format!("    pub const NAME: &str = {:?};", service.full_name()));
    for Method { id, constant, path, request, response, .. } in methods {
        line(text, &format!("    /// `{path}`"));
        line(text, &format!("    pub const {constant}: Rpc<v1::{request}, v1::{response}> ="));
        line(text, &format!("        Rpc::of(&METHODS[MethodId::{id} as usize]);"));
    }
    line(text, "}");
}

/// The macro with which other crates generate code for each method.
fn write_macro<'a>(text: &mut String, services: impl Iterator<Item = (&'a str, &'a [Method])>) {
    line(text, "/// Expands a macro with all services and their methods. For each service it gets:");
    line(text, "/// `Service service { Id function cardinality size_class Request Response; ... }`");
    line(text, "#[macro_export]");
    line(text, "macro_rules! with_all_services {");
    line(text, "    ($expand:ident) => {");
    line(text, "        $expand! {");
    for (service, methods) in services {
        line(text, &format!("            {service} {} {{", snake_case(service)));
        for Method { id, function, cardinality, size_class, request, response, .. } in methods {
            let size_class = size_class.to_lowercase();
            line(text, &format!("                {id} {function} {cardinality} {size_class} {request} {response};"));
        }
        line(text, "            }");
    }
    line(text, "        }");
    line(text, "    };");
    line(text, "}");
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a String takes all text");
}

/// `ListDevices` to `list_devices`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// `NO_SIDE_EFFECTS` to `NoSideEffects`.
fn camel_case(name: &str) -> String {
    let word = |word: &str| word[..1].to_owned() + &word[1..].to_lowercase();
    name.split('_').filter(|part| !part.is_empty()).map(word).collect()
}
