//! Lists, page by page. An item's place is a number and a name, so it stays where it is while others come and go, and a
//! cursor is the place of the last item that a client has.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Result;
use crate::ask::invalid;

/// Items of a page unless the client says.
pub(crate) const USUAL: usize = 50;
/// Most items of a page. It stands in the description of every list.
pub(crate) const MOST: usize = 200;

/// The query of a list of which nothing else is chosen.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PageQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

impl Query {
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted { cursor: self.cursor.as_deref(), limit: self.limit }
    }
}

/// Where an item stands.
pub(crate) type Place = (u64, String);

/// What a client asks for.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) cursor: Option<&'a str>,
    pub(crate) limit: Option<usize>,
}

/// Which places come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Those with small numbers.
    Rising,
    /// Those with large ones.
    Falling,
}

/// One page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// Cursor of the next page; none on the last one.
    pub(crate) next: Option<String>,
}

/// How many items are wanted.
///
/// # Errors
/// `request_invalid`.
pub(crate) fn limit(asked: Option<usize>) -> Result<usize> {
    let limit = asked.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(invalid("the limit cannot be used").why(format!("it is 1 to {MOST}")));
    }
    Ok(limit)
}

/// The items behind a cursor, in their order.
///
/// # Errors
/// `request_invalid` for a limit or a cursor that is none.
pub(crate) fn page<T>(
    items: Vec<T>,
    wanted: &Wanted<'_>,
    order: Order,
    place: impl Fn(&T) -> Place,
) -> Result<Page<T>> {
    page_of(items, wanted, order, place, |_| Ok(true))
}

/// The same of items of which only some belong to the list. Only as many are looked at as the page needs.
///
/// # Errors
/// As [`page`], or what looking at an item answers.
pub(crate) fn page_of<T>(
    items: Vec<T>,
    wanted: &Wanted<'_>,
    order: Order,
    place: impl Fn(&T) -> Place,
    belongs: impl Fn(&T) -> Result<bool>,
) -> Result<Page<T>> {
    let limit = limit(wanted.limit)?;
    let after = wanted.cursor.map(parse).transpose()?;
    let is_after = |place: &Place| match (&after, order) {
        (None, _) => true,
        (Some(after), Order::Rising) => place > after,
        (Some(after), Order::Falling) => place < after,
    };
    let placed = items.into_iter().map(|item| (place(&item), item));
    let mut rest: Vec<(Place, T)> = placed.filter(|(place, _)| is_after(place)).collect();
    rest.sort_by(|(a, _), (b, _)| match order {
        Order::Rising => a.cmp(b),
        Order::Falling => b.cmp(a),
    });
    let (mut items, mut last) = (Vec::new(), None);
    for (place, item) in rest {
        if !belongs(&item)? {
            continue;
        }
        if items.len() == limit {
            let next = last.map(|(number, name)| format!("{number}.{name}"));
            return Ok(Page { items, next });
        }
        last = Some(place);
        items.push(item);
    }
    Ok(Page { items, next: None })
}

fn parse(text: &str) -> Result<Place> {
    let parts =
        text.split_once('.').and_then(|(at, name)| Some((at.parse().ok()?, name.to_owned())));
    parts.ok_or_else(unusable)
}

/// A cursor that no page named.
pub(crate) fn unusable() -> crate::Error {
    invalid("the cursor cannot be used").why("it is not what a page named as its `next`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(items: &[(u64, &str)], cursor: Option<&str>, limit: usize, order: Order) -> String {
        let wanted = Wanted { cursor, limit: Some(limit) };
        let place = |item: &(u64, &str)| (item.0, item.1.to_owned());
        let page = page(items.to_vec(), &wanted, order, place).unwrap();
        let items: Vec<_> =
            page.items.iter().map(|(number, name)| format!("{number}{name}")).collect();
        format!("{} {}", items.join(","), page.next.unwrap_or_default())
    }

    #[test]
    fn pages_follow_one_another_whatever_comes_and_goes() {
        use Order::{Falling, Rising};
        let all = [(2, "b"), (1, "x.y"), (2, "a"), (3, "c")];
        let check = |items: &[(u64, &str)], cursor, limit, order, expected: &str| {
            assert_eq!(of(items, cursor, limit, order), expected, "{cursor:?} {limit}");
        };
        check(&[], None, 1, Rising, " ");
        check(&all, None, 4, Rising, "1x.y,2a,2b,3c ");
        check(&all, None, 1, Rising, "1x.y 1.x.y");
        check(&all, Some("1.x.y"), 2, Rising, "2a,2b 2.b");
        check(&all, Some("2.b"), 2, Rising, "3c ");
        check(&all, None, 3, Falling, "3c,2b,2a 2.a");
        check(&all, Some("2.a"), 3, Falling, "1x.y ");
        // What the cursor names is gone, and something new came before it.
        check(&[(0, "new"), (1, "x.y"), (3, "c")], Some("2.b"), 2, Rising, "3c ");
    }

    #[test]
    fn what_belongs_to_no_list_fills_no_page_and_is_not_looked_at_needlessly() {
        let check = |after: Option<&str>, expected: (&[u64], Option<&str>), looked_at: usize| {
            let looked = std::cell::Cell::new(0);
            let is_even = |number: &u64| {
                looked.set(looked.get() + 1);
                Ok(number.is_multiple_of(2))
            };
            let wanted = Wanted { cursor: after, limit: Some(2) };
            let place = |number: &u64| (*number, "a".to_owned());
            let page = page_of((1..=9).collect(), &wanted, Order::Rising, place, is_even).unwrap();
            assert_eq!((&*page.items, page.next.as_deref()), expected);
            assert_eq!(looked.get(), looked_at, "{after:?}");
        };
        check(None, (&[2, 4], Some("4.a")), 6);
        check(Some("4.a"), (&[6, 8], None), 5);
        check(Some("8.a"), (&[], None), 1);
    }

    #[test]
    fn limits_and_cursors_that_are_none_are_refused() {
        let check = |cursor: Option<&str>, limit: Option<usize>, is_good: bool| {
            let found = page(vec![(1, "a")], &Wanted { cursor, limit }, Order::Rising, |item| {
                (item.0, item.1.to_owned())
            });
            assert_eq!(found.is_ok(), is_good, "{cursor:?} {limit:?}");
        };
        check(None, None, true);
        check(None, Some(0), false);
        check(None, Some(MOST), true);
        check(None, Some(MOST + 1), false);
        check(Some("1.a"), None, true);
        check(Some(""), None, false);
        check(Some("a.1"), None, false);
        check(Some("-1.a"), None, false);
    }
}
