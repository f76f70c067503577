//! Workspaces end to end: freeze, seal, roll back, on real overlay mounts where the host allows them.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod attacks;
mod beneath;
mod freezing;
mod git_safety;
mod large;
mod layers;
mod toolchains;
mod util;

#[test]
fn every_workspace_code_has_a_page() {
    use glasshouse_sandbox::codes;
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for code in [
        codes::WORKSPACE_IO,
        codes::WORKSPACE_TOO_LARGE,
        codes::PATH_UNREPRESENTABLE,
        codes::PROJECT_CHANGING,
        codes::WORKSPACE_DAMAGED,
        codes::GIT_FAILED,
    ] {
        let text = std::fs::read_to_string(pages.join(format!("{}.md", code.name))).unwrap();
        assert!(text.starts_with(&format!("# {}\n", code.name)));
    }
}
