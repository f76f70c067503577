import assert from "node:assert/strict";
import { test } from "node:test";
import { slug } from "../src/slug.js";

const titles = [
  ["Hello, World", "hello-world"],
  ["  spaces   and\ttabs ", "spaces-and-tabs"],
  ["2 + 2 = 4!", "2-2-4"],
  ["???", ""],
];

for (const [title, expected] of titles) {
  test(`slug of ${JSON.stringify(title)}`, () => {
    assert.equal(slug(title), expected);
  });
}
