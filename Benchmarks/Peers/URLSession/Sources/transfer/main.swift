import BenchmarkSupport
import Dispatch
import Foundation
import FoundationNetworking

// The same work as Sources/Transfer, by FoundationNetworking's URLSession: one large body down or up.
let usage = "transfer download URL [--memory | --to FILE] | upload URL FILE"

/// Counts what arrives and drops it. Touched on the session's queue; read after its end.
final class Receiver: NSObject, URLSessionDataDelegate, @unchecked Sendable {
  let finished = DispatchSemaphore(value: 0)
  private(set) var received = 0

  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    received += data.count
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    if let error { fatalError("\(error)") }
    finished.signal()
  }
}

/// A result that crosses from a completion handler to who waits for it.
final class Box: @unchecked Sendable {
  let finished = DispatchSemaphore(value: 0)
  private var value = 0

  func set(_ value: Int, _ response: URLResponse?) {
    precondition((response as? HTTPURLResponse)?.statusCode == 200)
    self.value = value
    finished.signal()
  }

  func wait() -> Int {
    finished.wait()
    return value
  }
}

func download(_ url: URL) -> Int {
  let configuration = URLSessionConfiguration.default
  configuration.urlCache = nil
  let box = Box()
  if let path = option("--to") {
    let task = URLSession(configuration: configuration).downloadTask(with: url) { location, response, error in
      guard let location else { fatalError("\(String(describing: error))") }
      do {
        try FileManager.default.moveItem(at: location, to: URL(fileURLWithPath: path))
      } catch {
        fatalError("\(error)")
      }
      var status = stat()
      precondition(stat(path, &status) == 0)
      box.set(status.st_size, response)
    }
    task.resume()
    return box.wait()
  }
  if CommandLine.arguments.contains("--memory") {
    let task = URLSession(configuration: configuration).dataTask(with: url) { body, response, _ in
      box.set(body?.count ?? 0, response)
    }
    task.resume()
    return box.wait()
  }
  let receiver = Receiver()
  let session = URLSession(configuration: configuration, delegate: receiver, delegateQueue: nil)
  session.dataTask(with: url).resume()
  receiver.finished.wait()
  return receiver.received
}

func upload(_ url: URL, _ path: String) -> Int {
  let box = Box()
  var request = URLRequest(url: url)
  request.httpMethod = "PUT"
  var status = stat()
  precondition(stat(path, &status) == 0)
  let size = status.st_size
  let task = URLSession.shared.uploadTask(with: request, fromFile: URL(fileURLWithPath: path)) { _, response, _ in
    box.set(size, response)
  }
  task.resume()
  return box.wait()
}

let arguments = CommandLine.arguments
let isUpload = arguments.dropFirst().first == "upload"
guard arguments.count >= (isUpload ? 4 : 3), let url = URL(string: arguments[2]) else { misuse(usage) }
let before = Cost()
let received = isUpload ? 0 : download(url)
let sent = isUpload ? upload(url, arguments[3]) : 0
printTransfer(received: received, sent: sent, since: before)
exit(0)
