//! Constraints on interfaces: the profile, its limits and its hosts.

use std::collections::{BTreeMap, BTreeSet};

use crate::codes;
use crate::error::Result;
use crate::limits::{MAX_LIST_ITEMS, MAX_NAME_BYTES};
use crate::rule::{Interface, UI_LIMITS, UI_PROFILES};
use crate::yaml::{Fields, Kind, Node, Reader};

pub(super) const PROFILE: &str = "ui_profile";
pub(super) const LIMITS: &str = "ui_limits";
pub(super) const HOSTS: &str = "ui_hosts";

pub(super) fn read(reader: &Reader<'_>, fields: &Fields<'_>) -> Result<Interface> {
    Ok(Interface {
        profile: fields.get(PROFILE).map(|node| profile(reader, node)).transpose()?,
        limits: match fields.get(LIMITS) {
            Some(node) => limits(reader, node)?,
            None => BTreeMap::new(),
        },
        hosts: fields.get(HOSTS).map(|node| hosts(reader, node)).transpose()?,
    })
}

fn profile(reader: &Reader<'_>, node: &Node) -> Result<usize> {
    let name = reader.word(node, PROFILE, &UI_PROFILES)?;
    Ok(UI_PROFILES.iter().position(|known| *known == name).unwrap_or_default())
}

fn limits(reader: &Reader<'_>, node: &Node) -> Result<BTreeMap<String, u64>> {
    let fields = reader.map(node, LIMITS, &UI_LIMITS)?;
    let mut limits = BTreeMap::new();
    for name in UI_LIMITS {
        let Some(node) = fields.get(name) else { continue };
        let number = match node.kind {
            Kind::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let most = number.ok_or_else(|| reader.wrong_type(node, name, "a number from 0"))?;
        limits.insert(name.to_owned(), most);
    }
    Ok(limits)
}

fn hosts(reader: &Reader<'_>, node: &Node) -> Result<BTreeSet<String>> {
    let items = reader.list(node, HOSTS)?;
    if items.len() > MAX_LIST_ITEMS {
        return Err(super::too_many(reader, node, HOSTS, items.len(), MAX_LIST_ITEMS));
    }
    let host = |item| {
        let name = reader.text(item, "a host")?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.*:[]".contains(&b);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
            let error = reader.error(codes::BAD_VALUE, item, format!("`{name}` is no host"));
            let error = error.why("a name in lower case, perhaps with `*.` or a port");
            return Err(error.fix("write a name such as `cdn.example.org`"));
        }
        Ok(name.to_owned())
    };
    items.iter().map(host).collect()
}
