//! The files and connections that processes wait for.

use std::path::Path;

use super::waits::read;

/// File systems on other machines, by their names in `mountinfo`.
const AFAR: [&str; 12] =
    ["nfs", "nfs4", "lustre", "ceph", "cifs", "smb3", "9p", "beegfs", "gpfs", "glusterfs", "afs", "wekafs"];

/// Whether a path of the process whose folder in `/proc` that is lies on another machine.
pub fn mounted_from_afar(folder: &Path, path: &str) -> bool {
    let Some(mounts) = read(&folder.join("mountinfo")) else { return false };
    // proc(5): the fifth field is the mount point, the first behind the dash the type.
    let mounted = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        Some((mount.split(' ').nth(4)?, kind.split(' ').next()?))
    });
    let holds = |point: &str| Path::new(path).starts_with(point);
    let nearest = mounted.filter(|(point, _)| holds(point)).max_by_key(|(point, _)| point.len());
    nearest.is_some_and(|(_, kind)| AFAR.contains(&kind) || kind.starts_with("fuse."))
}

/// A descriptor's target as it is shown: a path, or the other end of a connection; nothing of others.
pub fn shown(folder: &Path, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return Some(target.to_owned());
    }
    let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    ["net/tcp", "net/tcp6"].iter().find_map(|name| peer(&read(&folder.join(name))?, inode))
}

/// The remote address of the connection with that inode (Documentation/networking/proc_net_tcp.rst).
fn peer(table: &str, inode: &str) -> Option<String> {
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let row = table.lines().skip(1).map(fields).find(|fields| fields.get(9).is_some_and(|known| known == inode))?;
    let (address, port) = row.get(2)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Who listens has nobody at the other end.
    (port != 0).then(|| address_of(address).map(|host| format!("{host}:{port}")))?
}

/// An address in the kernel's hexadecimal: words of 32 bits in the machine's order.
fn address_of(text: &str) -> Option<String> {
    let words: Vec<[u8; 4]> = (0..text.len() / 8)
        .filter_map(|at| Some(u32::from_str_radix(text.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    match words.as_slice() {
        [word] => Some(std::net::Ipv4Addr::from(*word).to_string()),
        [..] if words.len() == 4 => {
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            let address = std::net::Ipv6Addr::from(bytes);
            Some(address.to_ipv4_mapped().map_or_else(|| format!("[{address}]"), |mapped| mapped.to_string()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_path_belongs_to_its_nearest_mount() {
        let folder = tempfile::tempdir().unwrap();
        // As proc(5) shows them.
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      40 22 0:35 / /data rw shared:9 - nfs4 store:/data rw,vers=4.2\n\
                      41 40 8:2 / /data/scratch rw - xfs /dev/sdb1 rw\n\
                      42 22 0:36 / /s3 rw - fuse.s3fs s3fs rw\n";
        fs::write(folder.path().join("mountinfo"), mounts).unwrap();
        let afar = |path| mounted_from_afar(folder.path(), path);
        assert!(afar("/data/a.bin") && afar("/s3/a.bin"));
        assert!(!afar("/data/scratch/a.bin") && !afar("/database/a.bin") && !afar("/a.bin"));
    }

    /// 10.0.0.3 is 0A000003, in a little-endian machine's order 0300000A; port 29500 is 733C.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_other_end_of_a_connection_is_named() {
        let row = |remote: &str, inode| {
            format!(
                "   0: 0100007F:9C40 {remote} 01 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0\n"
            )
        };
        let table =
            format!("  sl  local_address rem_address\n{}{}", row("0300000A:733C", 77), row("00000000:0000", 78));
        assert_eq!(peer(&table, "77").as_deref(), Some("10.0.0.3:29500"));
        assert_eq!((peer(&table, "78"), peer(&table, "7")), (None, None));
        let mapped = format!("head\n{}", row("0000000000000000FFFF00000300000A:733C", 79));
        assert_eq!(peer(&mapped, "79").as_deref(), Some("10.0.0.3:29500"));
        let sixth = format!("head\n{}", row("00000000000000000000000001000000:733C", 80));
        assert_eq!(peer(&sixth, "80").as_deref(), Some("[::1]:29500"));
    }
}
