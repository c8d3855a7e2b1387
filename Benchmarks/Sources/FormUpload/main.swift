import BenchmarkSupport
import Foundation
import Lupine

// One large file as a part of a form; prints what it cost this process, and its peak memory. Apart from Transfer, because Lupine brings Foundation.
let usage = "FormUpload upload URL FILE [--ca FILE]"

struct Refused: Error {
  let status: Int
}

func upload(_ url: String, _ path: String) async throws -> Int {
  var configuration = SessionConfiguration()
  if let authority = option("--ca") { configuration.tls.roots = .file(authority) }
  let session = try Session(configuration)
  var form = MultipartFormData()
  form.append(Data("value".utf8), name: "key")
  try form.append(fileURL: URL(filePath: path), name: "file")
  var request = try Request(url, method: .post)
  form.apply(to: &request)
  let (_, response) = try await session.data(for: request)
  guard response.statusCode == 200 else { throw Refused(status: response.statusCode) }
  return Int(response.metrics.transactions.last?.requestBodyBytes ?? 0)
}

runBlocking {
  let arguments = CommandLine.arguments
  guard arguments.count >= 4, arguments[1] == "upload" else { misuse(usage) }
  let before = Cost()
  let sent = try await upload(arguments[2], arguments[3])
  printTransfer(received: 0, sent: sent, since: before)
}
