//! Who a process belongs to.

use std::collections::HashMap;
use std::path::Path;

use super::cut;
use crate::files;

/// A hundred thousand accounts.
const MOST_BYTES: u64 = 16 << 20;

/// Login names by user id, from the password file, which is read when an unknown id turns up.
#[derive(Debug, Default)]
pub struct Users {
    names: HashMap<u32, String>,
}

impl Users {
    /// The login name, or the number where there is none.
    pub fn name(&mut self, id: u32) -> String {
        let name = self.names.entry(id).or_insert_with(|| {
            let passwd = files::read_text(Path::new("/etc/passwd"), MOST_BYTES).unwrap_or_default();
            // Directory services are not asked: that may block for long. The number will do.
            login_name(&passwd, id).unwrap_or_else(|| id.to_string())
        });
        name.clone()
    }
}

/// The first account with that id: `name:password:id:…`.
pub fn login_name(passwd: &str, id: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == id && !name.is_empty()).then(|| cut(name.to_owned()))
    })
}
