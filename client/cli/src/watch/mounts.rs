//! Finds trees on file systems whose changes by other machines are not reported.

use std::{fs, path::Path};

use crate::walk::Tree;

const REMOTE: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "virtiofs", "fuse.sshfs"];

/// Names of the trees on remote file systems, with the kinds of these.
pub fn remote(trees: &[Tree]) -> Vec<(String, String)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let kind = |tree: &Tree| {
        let kind = kind(&mounts, &tree.root)?;
        REMOTE.contains(&kind).then(|| (tree.name.clone(), kind.to_owned()))
    };
    trees.iter().filter_map(kind).collect()
}

/// The kind of the file system that has a path. A later mount covers an earlier one.
fn kind<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        // A space in a path is written as `\040`.
        Some((fields.next()?.replace("\\040", " "), fields.next()?))
    });
    mounts.filter(|(at, _)| path.starts_with(at)).max_by_key(|(at, _)| at.len()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_decides() {
        let mounts = "/dev/vda / ext4 rw 0 0\nserver:/a /mnt/with\\040space nfs4 rw 0 0\ntmpfs /mnt/with\\040space/tmp tmpfs rw 0 0\n";
        let kind = |path: &str| kind(mounts, path.as_ref());
        assert_eq!(kind("/mnt/with"), Some("ext4"));
        assert_eq!(kind("/mnt/with space/src"), Some("nfs4"));
        assert_eq!(kind("/mnt/with space/tmp/a"), Some("tmpfs"));
    }
}
