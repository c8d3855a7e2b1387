import Foundation
import HTTPTypes
import Lupine
import LupineTesting
import Testing

/// Forms sent by managers.
@Suite struct MultipartCallTests {
  /// The file is a part with its name, the parameter another one; the length is announced, and the progress reaches 1.
  @Test(arguments: ["POST", "PUT", "PATCH"])
  func formsArrive(_ verb: String) async throws {
    let folder = try ScratchFolder()
    try Data(repeating: 0x61, count: 20_000).write(to: folder.file("upload.txt"))
    try await withManager(ServerRoute.api()) { manager, server in
      let fractions = Recorder<Double>()
      let construct: (inout MultipartFormData) throws -> Void = { form in
        try form.append(fileURL: folder.file("upload.txt"), name: "file")
      }
      let end = await ended { success, failure in
        let progress: TaskProgressHandler = { fractions.add($0.fractionCompleted) }
        switch verb {
        case "POST":
          return manager.post(
            "anything", parameters: ["key": "value"], constructingBody: construct, progress: progress,
            success: success, failure: failure)
        case "PUT":
          return manager.put(
            "anything", parameters: ["key": "value"], constructingBody: construct, progress: progress,
            success: success, failure: failure)
        default:
          return manager.patch(
            "anything", parameters: ["key": "value"], constructingBody: construct, progress: progress,
            success: success, failure: failure)
        }
      }
      let told = try end.anything()
      #expect(told.method == verb && !told.isChunked && fractions.values.last == 1)
      #expect(told.headers["content-type"]?.hasPrefix("multipart/form-data; boundary=") ?? false)
      #expect(told.headers["content-length"] == "\(told.body.utf8.count)")
      #expect(told.body.contains("name=\"key\"\r\n\r\nvalue\r\n"))
      #expect(told.body.contains("name=\"file\"; filename=\"upload.txt\"") && told.body.utf8.count > 20_000)
    }
  }

  /// The async twin sends the same; what the closure throws, the call throws, and the handler of failure gets.
  @Test func asyncForms() async throws {
    struct NoFile: Error {}
    try await withManager(ServerRoute.api()) { manager, server in
      let told = try await manager.post("anything", as: Anything.self) { $0.append(Data("x".utf8), name: "field") }
      #expect(told.body.contains("name=\"field\"\r\n\r\nx\r\n"))
      await #expect(throws: NoFile.self) {
        try await manager.put("anything", as: Anything.self) { _ in throw NoFile() }
      }
      let end = await ended { success, failure in
        manager.post("anything", constructingBody: { _ in throw NoFile() }, success: success, failure: failure)
      }
      #expect(end.task == nil && end.error is NoFile)
    }
  }

  /// Headers take no boundary away from a form with parts; a type that has it is taken, and so is any of a form without parts.
  @Test func headersKeepTheBoundary() throws {
    let manager = try HTTPSessionManager(baseURL: "http://example.com/")
    let rows: [(type: String, parts: Int, sent: String)] = [
      ("multipart/form-data", 1, "multipart/form-data; boundary=abc"),
      ("multipart/form-data; boundary=abcd", 1, "multipart/form-data; boundary=abc"),
      ("application/json", 1, "multipart/form-data; boundary=abc"),
      ("multipart/mixed; Boundary=\"abc\"", 1, "multipart/mixed; Boundary=\"abc\""),
      ("text/plain", 0, "text/plain"),
    ]
    for (type, parts, sent) in rows {
      let request = try manager.multipartRequest(
        .post, "form", headers: ["content-type": type, "X-Other": "kept"]
      ) { form in
        form = try MultipartFormData(boundary: "abc")
        for _ in 0..<parts { form.append(Data("x".utf8), name: "field") }
      }
      #expect(request.fields[.contentType] == sent, "\(type)")
      #expect(request.fields.contains { $0.name.rawName == "X-Other" && $0.value == "kept" })
    }
  }

  /// A form is sent again after a redirect that keeps the method (complaint 9).
  @Test func complaint9FormsAreReplayed() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      let end = await ended { success, failure in
        manager.post(
          "redirect?to=/anything&status=307", constructingBody: { $0.append(Data("x".utf8), name: "field") },
          success: success, failure: failure)
      }
      let told = try end.anything()
      #expect(told.method == "POST" && told.body.contains("name=\"field\"\r\n\r\nx\r\n"))
    }
  }
}
