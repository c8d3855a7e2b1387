import LupineRules
import Testing

@Suite struct RequestMarksTests {
  static let rows: [(String, String, RequestMarks)] = [
    ("Connection", "close", RequestMarks(closesConnection: true)),
    ("connection", "Close", RequestMarks(closesConnection: true)),
    ("CONNECTION", "keep-alive , \tCLOSE\t,", RequestMarks(closesConnection: true)),
    ("Connection", "keep-alive", RequestMarks()),
    ("Connection", "Upgrade, closed, x-close, clo se", RequestMarks()),
    ("Connection", "", RequestMarks()),
    ("Connection", ",,", RequestMarks()),
    ("Konnection", "close", RequestMarks()),
    ("Proxy-Connection", "close", RequestMarks()),
    ("Close", "connection", RequestMarks()),
    ("Idempotency-Key", "close", RequestMarks(hasIdempotencyKey: true)),
    ("x-idempotency-key", "1", RequestMarks(hasIdempotencyKey: true)),
    ("X-Idempotency-Kex", "1", RequestMarks()),
  ]

  @Test(arguments: rows) func reads(_ row: (String, String, RequestMarks)) {
    var marks = RequestMarks()
    marks.note(row.0, row.1)
    #expect(marks == row.2)
  }
}
