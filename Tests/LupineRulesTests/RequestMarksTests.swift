import LupineRules
import Testing

@Suite struct RequestMarksTests {
  static let rows: [(String, String, RequestMarks)] = [
    ("Connection", "close", .closesConnection),
    ("connection", "Close", .closesConnection),
    ("CONNECTION", "keep-alive , \tCLOSE\t,", .closesConnection),
    ("Connection", "keep-alive", []),
    ("Connection", "Upgrade, closed, x-close, clo se", []),
    ("Connection", "", []),
    ("Connection", ",,", []),
    ("Konnection", "close", []),
    ("Proxy-Connection", "close", []),
    ("Close", "connection", []),
    ("Idempotency-Key", "close", .idempotencyKey),
    ("x-idempotency-key", "1", .idempotencyKey),
    ("X-Idempotency-Kex", "1", []),
  ]

  @Test(arguments: rows) func reads(_ row: (String, String, RequestMarks)) {
    #expect(RequestMarks.of(row.0, row.1) == row.2)
  }
}
