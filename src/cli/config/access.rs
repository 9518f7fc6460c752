//! What servers elsewhere ask for: the section `access` of `config.yaml`, and variables. No fault repeats a value.

use crate::cli::args::fault::OptionFault;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::observe::{Access, Authorization, Secret};

/// The keys of the section.
const KEYS: [&str; 7] = ["token", "token_file", "user", "password", "password_file", "headers", "ca"];

/// What the section says.
pub fn read(value: &Value) -> Result<Access, OptionFault> {
    let Value::Object(section) = value else {
        return Err(format!("a section with {} is needed here", KEYS.join(", ")).into());
    };
    if let Some(key) = section.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("no key `{key}`; known: {}", KEYS.join(", ")).into());
    }
    let token = secret(section, "token", "token_file")?;
    let password = secret(section, "password", "password_file")?;
    let authorization = match (token, text(section, "user")?, password) {
        (None, None, None) => Authorization::None,
        (Some(token), None, None) => Authorization::Bearer(token),
        (None, Some(user), Some(password)) => Authorization::Basic { user, password },
        (None, ..) => return Err("`user` and a password go together".into()),
        (Some(_), ..) => return Err("either a token, or `user` and a password".into()),
    };
    Ok(Access { authorization, headers: headers(section)?, ca: text(section, "ca")?.map(PathBuf::from) })
}

fn text(section: &Map<String, Value>, key: &str) -> Result<Option<String>, OptionFault> {
    match section.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(format!("`{key}`: one word is needed here").into()),
    }
}

/// A secret that stands in the section, or in a file that the section names.
fn secret(section: &Map<String, Value>, key: &str, file: &str) -> Result<Option<Secret>, OptionFault> {
    match (text(section, key)?, text(section, file)?) {
        (Some(_), Some(_)) => Err(format!("either `{key}` or `{file}`").into()),
        (text, path) => Ok(text.map(Secret::Text).or(path.map(|path| Secret::File(PathBuf::from(path))))),
    }
}

fn headers(section: &Map<String, Value>) -> Result<Vec<(String, Secret)>, OptionFault> {
    let named = match section.get("headers") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(named)) => named,
        Some(_) => return Err("`headers`: names with their values are needed here".into()),
    };
    let header = |name: &String| {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err("`headers`: a name has letters, digits and `-`".into());
        }
        let value = text(named, name).map_err(|_| format!("`headers`: one word is needed for `{name}`"))?;
        Ok((name.clone(), Secret::Text(value.unwrap_or_default())))
    };
    named.keys().map(header).collect()
}

/// Adds what variables say, which wins over the file.
pub fn take_variables(access: &mut Access, variable: impl Fn(&str) -> Option<OsString>) -> Result<(), OptionFault> {
    let said = |name: &str| {
        let value = variable(&format!("MEMWALL_ACCESS_{name}")).filter(|value| !value.is_empty())?;
        Some(value.to_string_lossy().into_owned())
    };
    match (said("TOKEN"), said("USER"), said("PASSWORD")) {
        (None, None, None) => {}
        (Some(token), None, None) => access.authorization = Authorization::Bearer(Secret::Text(token)),
        (None, Some(user), Some(password)) => {
            access.authorization = Authorization::Basic { user, password: Secret::Text(password) };
        }
        (None, ..) => return Err("MEMWALL_ACCESS_USER and MEMWALL_ACCESS_PASSWORD go together".into()),
        (Some(_), ..) => {
            return Err("either MEMWALL_ACCESS_TOKEN, or MEMWALL_ACCESS_USER and MEMWALL_ACCESS_PASSWORD".into());
        }
    }
    if let Some(ca) = said("CA") {
        access.ca = Some(PathBuf::from(ca));
    }
    for header in said("HEADERS").iter().flat_map(|headers| headers.split(',')) {
        let named = header.split_once('=').filter(|(name, _)| !name.trim().is_empty());
        let (name, value) = named.ok_or("MEMWALL_ACCESS_HEADERS: write it like X-Scope-OrgID=tenant")?;
        access.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name.trim()));
        access.headers.push((name.trim().to_owned(), Secret::Text(value.trim().to_owned())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_section_says_who_asks() {
        let access = read(&json!({"token_file": "/t", "headers": {"X-Scope-OrgID": "team"}, "ca": "/ca.pem"})).unwrap();
        assert_eq!(access.authorization, Authorization::Bearer(Secret::File(PathBuf::from("/t"))));
        assert_eq!(access.headers, [("X-Scope-OrgID".to_owned(), Secret::Text("team".to_owned()))]);
        assert_eq!(access.ca, Some(PathBuf::from("/ca.pem")));
        let basic = read(&json!({"user": "me", "password": "p"})).unwrap();
        assert!(matches!(basic.authorization, Authorization::Basic { user, .. } if user == "me"));
    }

    #[test]
    fn no_fault_repeats_a_secret() {
        for section in [
            json!({"token": "s3cret", "user": "me"}),
            json!({"user": "s3cret"}),
            json!({"password": "s3cret"}),
            json!({"token": ["s3cret"]}),
            json!({"token": "s3cret", "token_file": "/t"}),
            json!({"headers": "s3cret"}),
            json!({"headers": {"a b": "s3cret"}}),
            json!({"headers": {"a": ["s3cret"]}}),
            json!({"tokn": "s3cret"}),
            json!("s3cret"),
        ] {
            let fault = read(&section).unwrap_err();
            assert!(!fault.to_string().contains("s3cret"), "{fault}");
        }
    }

    #[test]
    fn variables_win_over_the_file() {
        let mut access = read(&json!({"token": "a", "headers": {"x-scope-orgid": "b"}})).unwrap();
        let variables = [
            ("MEMWALL_ACCESS_USER", "me"),
            ("MEMWALL_ACCESS_PASSWORD", "p"),
            ("MEMWALL_ACCESS_HEADERS", "X-Scope-OrgID=c, X-Other=d"),
        ];
        let look =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        take_variables(&mut access, look).unwrap();
        assert!(matches!(&access.authorization, Authorization::Basic { user, .. } if user == "me"));
        let names: Vec<&str> = access.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["X-Scope-OrgID", "X-Other"]);
        let alone = |name: &str| (name == "MEMWALL_ACCESS_PASSWORD").then(|| OsString::from("s3cret"));
        assert!(!take_variables(&mut access, alone).unwrap_err().to_string().contains("s3cret"));
    }
}
