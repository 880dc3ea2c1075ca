//! The files of an installation that the daemon finds from the path of its executable.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Folder of the compiled kernels, if the installation has them: `share/accelerd/kernels`, where the executable is `bin/accelerd`.
pub(crate) fn kernels() -> Option<PathBuf> {
    env::current_exe().ok().and_then(|executable| kernels_of(&executable))
}

fn kernels_of(executable: &Path) -> Option<PathBuf> {
    let prefix = executable.parent()?.parent()?;
    Some(prefix.join("share/accelerd/kernels")).filter(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_in_the_prefix_of_the_executable() {
        let prefix = tempfile::tempdir().expect("a temporary folder");
        let executable = prefix.path().join("bin/accelerd");
        assert_eq!(kernels_of(&executable), None);
        let kernels = prefix.path().join("share/accelerd/kernels");
        std::fs::create_dir_all(&kernels).expect("a folder");
        assert_eq!(kernels_of(&executable), Some(kernels));
        assert_eq!(kernels_of(Path::new("accelerd")), None);
    }
}
