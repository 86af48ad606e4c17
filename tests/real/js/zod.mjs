// The schemas that every stream knows by name, written by hand in Zod.
// Reads {name: [value, …]} from standard input and prints {name: [verdict, …]}.
import { readFileSync } from "node:fs";
import { z } from "zod";

const clock = z
  .string()
  .regex(/^([0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$/);
const text = (most) => z.string().min(1).max(most);
// To JSON Schema any whole number is an integer, however large.
const whole = z.number().refine(Number.isInteger).min(1).max(20);

const schemas = {
  Action: z.object({
    mode: z.enum(["search", "book"]),
    target: z.discriminatedUnion("kind", [
      z.object({ kind: z.literal("place"), id: z.string() }),
      z.object({ kind: z.literal("time"), at: z.string() }),
    ]),
  }),
  AssistantReply: z.object({
    answer: z.string(),
    citations: z.array(z.string()),
    diagnostics: z
      .object({
        error: z.string(),
        last_validator_errors: z
          .array(z.object({ path: z.string(), message: z.string() }))
          .optional(),
      })
      .nullable()
      .optional(),
  }),
  "places.search": z.object({
    query: text(200),
    radius_km: z.number().gt(0).max(50).optional(),
    open_at: clock.nullable().optional(),
    limit: whole.optional(),
  }),
  "bookings.create": z.object({
    place_id: text(64),
    time: clock,
    party_size: whole.optional(),
    name: text(100).optional(),
  }),
};

const verdicts = {};
for (const [name, values] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  verdicts[name] = values.map((value) => schemas[name].safeParse(value).success);
}
console.log(JSON.stringify(verdicts));
