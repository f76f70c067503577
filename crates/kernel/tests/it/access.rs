//! Keys and tenants in the log.

use std::cell::Cell;
use std::path::Path;

use glasshouse_kernel::Kernel;
use glasshouse_kernel::driver::{NewTenant, TenantRow};
use glasshouse_model::TenantId;

/// What a row says, to be changed.
fn terms(row: &TenantRow) -> NewTenant {
    let TenantRow { profile, quotas, roots, policy, .. } = row.clone();
    NewTenant { profile, quotas, roots, policy }
}

/// The failure: what somebody else changed between the look and the change was undone by the change.
#[test]
fn of_two_changes_to_a_tenant_none_is_undone() {
    let home = tempfile::tempdir().unwrap();
    let kernel = Kernel::open(home.path(), Path::new("/glasshouse")).unwrap();
    let (acme, by): (TenantId, _) = ("acme".parse().unwrap(), kernel.person());
    kernel.create_tenant(&acme, &NewTenant::default(), &by).unwrap();
    let with_quota = |row: Option<&TenantRow>, name: &str| {
        let mut new = terms(row.unwrap());
        new.quotas.insert(name.to_owned(), 7);
        new
    };
    let asked = Cell::new(0);
    let row = kernel.update_tenant(
        &acme,
        |row| {
            asked.set(asked.get() + 1);
            if asked.get() == 1 {
                // After the look, before the change.
                let other = |row: Option<&TenantRow>| with_quota(row, "open_streams");
                kernel.update_tenant(&acme, other, &by).unwrap();
            }
            with_quota(row, "running_turns")
        },
        &by,
    );
    let names: Vec<_> = row.unwrap().quotas.into_keys().collect();
    assert_eq!((names, asked.get()), (vec!["open_streams".into(), "running_turns".into()], 2));
}

#[test]
fn only_a_tenant_that_is_there_is_changed() {
    let home = tempfile::tempdir().unwrap();
    let kernel = Kernel::open(home.path(), Path::new("/glasshouse")).unwrap();
    let check = |tenant: &str, expected: Result<(), &str>| {
        let new = |_: Option<&TenantRow>| NewTenant::default();
        let row = kernel.update_tenant(&tenant.parse().unwrap(), new, &kernel.person());
        assert_eq!(row.map(drop).map_err(|error| error.code()), expected, "{tenant}");
    };
    check("acme", Err("tenant_not_found"));
    // The installation is always there.
    check("local", Ok(()));
}
