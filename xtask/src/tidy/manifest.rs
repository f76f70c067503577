//! As much of a Cargo manifest as the rules need: tables, keys and values, line by line.

/// One `key = value` of a manifest, with the table it stands in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    pub(super) table: &'a str,
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    /// From 1.
    pub(super) line: usize,
}

/// The settings of a manifest. A value that goes on over several lines is cut at its first.
pub(super) fn settings(text: &str) -> Vec<Setting<'_>> {
    let mut table = "";
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = name.trim_matches(['[', ']']);
        } else if let Some((key, value)) = line.split_once('=')
            && !line.starts_with('#')
        {
            let (key, value) = (key.trim(), value.trim());
            found.push(Setting { table, key, value, line: index + 1 });
        }
    }
    found
}

/// A package that a manifest asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency<'a> {
    pub(super) name: &'a str,
    /// Whether the entry stands in `[workspace.dependencies]`.
    pub(super) of_workspace: bool,
    pub(super) line: usize,
}

/// The dependencies of a manifest, of every kind and target.
pub(super) fn dependencies(text: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    for setting in settings(text) {
        let (table, line) = (setting.table, setting.line);
        let of_workspace = table == "workspace.dependencies";
        if is_dependencies(table) {
            // `name.workspace = true` and `name = ...` name the same package.
            let name = setting.key.split('.').next().unwrap_or(setting.key).trim_matches('"');
            found.push(Dependency { name, of_workspace, line });
        } else if let Some((parent, name)) = table.rsplit_once('.')
            && is_dependencies(parent)
            && found.last().is_none_or(|last: &Dependency<'_>| last.name != name)
        {
            let of_workspace = parent == "workspace.dependencies";
            found.push(Dependency { name, of_workspace, line });
        }
    }
    found
}

fn is_dependencies(table: &str) -> bool {
    let last = table.rsplit_once('.').map_or(table, |(_, last)| last);
    matches!(last, "dependencies" | "dev-dependencies" | "build-dependencies")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_dependency_is_read() {
        let text = "[package]\nname = \"a\"\n[dependencies]\nb = \"1\"\nc.workspace = true\n\
                    # d = \"1\"\ne = { version = \"1\", features = [\"f\"] }\n\
                    [target.'cfg(unix)'.dev-dependencies]\ng = \"1\"\n[dependencies.h]\n\
                    version = \"1\"\nfeatures = []\n[features]\ni = []\n[workspace.dependencies]\n\
                    j = \"1\"\n";
        let found: Vec<_> =
            dependencies(text).iter().map(|found| (found.name, found.of_workspace)).collect();
        let expected = [("b", false), ("c", false), ("e", false), ("g", false), ("h", false)];
        assert_eq!(found[..5], expected);
        assert_eq!(found[5..], [("j", true)]);
    }
}
