//! SIGTERM before the daemon serves: it ends at once, however long a model takes to come.

use std::{error::Error, fs, net::TcpListener, process::Command};

use crate::daemon;

/// Tells a daemon to end as soon as it asks a hub for a model. The hub never answers, and the daemon would wait for it as
/// long as its settings say, and then fail.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let hub = TcpListener::bind("127.0.0.1:0")?;
    let folder = tempfile::tempdir()?;
    let settings = format!(
        r#"
        models.hub = {{ endpoint = "http://{}", timeout = "20s" }}
        models.preload = [{{ name = "model", path = "hf://owner/model" }}]
        "#,
        hub.local_addr()?
    );
    let file = folder.path().join("config.toml");
    fs::write(&file, settings)?;
    let daemon = daemon::command().env("ACCELERD_CONFIG", &file).spawn()?;
    let _asked = hub.accept()?;
    let told = Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status()?;
    let ended = daemon.wait_with_output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(told.success() && ended.status.success(), "{}; it said:\n{said}", ended.status);
    assert!(said.contains("shutting down before serving"), "{said}");
    Ok(())
}
