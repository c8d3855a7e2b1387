internal import LupineCommandLine
internal import LupineSession
internal import LupineWire

extension WriteOut {
  /// What `--write-out` says.
  static func read(_ format: String) throws(CommandFailure) -> WriteOut {
    do throws(Refusal) {
      return try WriteOut(format)
    } catch {
      throw .misuse("--write-out: \(error.message)")
    }
  }
}

extension WriteOut.Facts {
  init(_ response: Response, _ metrics: TaskMetrics?) {
    self.init(
      url: response.urlString, status: response.statusCode,
      contentType: response.head.fields.first(named: "content-type") ?? "", metrics: metrics)
  }

  /// Of a transfer that failed, as far as it came.
  ///
  /// - Parameter response: the head that came, for an error that knows of none.
  init(_ error: any Error, response: Response?, url: String) {
    if let refusal = error as? Download.Refusal {
      self.init(refusal.response, refusal.metrics ?? refusal.response.metrics)
    } else if let error = error as? SessionError, let response = error.response {
      self.init(response, error.metrics)
    } else if let response {
      self.init(response, (error as? SessionError)?.metrics ?? response.metrics)
    } else {
      self.init(url: url, metrics: (error as? SessionError)?.metrics)
    }
  }
}
