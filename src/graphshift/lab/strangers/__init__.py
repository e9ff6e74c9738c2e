"""Tables as strangers bring them: is what ``recommend`` chooses ever worse than ten lines of scikit-learn?"""
